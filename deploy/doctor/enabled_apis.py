"""Checks that all Google APIs that the project needs are enabled."""

from __future__ import annotations

from collections.abc import Iterator

from deploy.doctor.finding import Finding, Level, LiveEnvironment, ok
from deploy.required_apis import needed_apis, read_required_apis


def check_services(live: LiveEnvironment) -> Iterator[Finding]:
    project = live.profile.project
    url = f"https://serviceusage.googleapis.com/v1/projects/{project}/services"
    enabled = {
        service["config"]["name"]
        for service in live.google.items(url, "services", filter="state:ENABLED", pageSize="200")
    }
    needed = needed_apis(live.runners, live.profile.spark.runtime_version, read_required_apis())
    missing = [needed_api for needed_api in needed if needed_api.api not in enabled]
    if missing:
        reasons = "; ".join(f"[{service.api}] {service.why}" for service in missing)
        text = f"not enabled in project [{project}]: {reasons}."
        command = f"gcloud services enable {' '.join(service.api for service in missing)} --project={project}"
        yield Finding(Level.FAIL, "APIs", text, command)
    else:
        yield ok("APIs", f"all {len(needed)} are enabled.")
