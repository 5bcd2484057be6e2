"""Checks that all needed APIs are enabled."""

from __future__ import annotations

from collections.abc import Iterator

from dedup_clone.settings.spark_settings import Runner
from deploy.doctor.finding import Finding, Level, LiveEnvironment, ok

NEEDED = ("bigquery.googleapis.com", "composer.googleapis.com", "iam.googleapis.com", "storage.googleapis.com")
NEEDED_BY_DATAPROC = ("compute.googleapis.com", "dataproc.googleapis.com")


def check_services(live: LiveEnvironment) -> Iterator[Finding]:
    project = live.profile.project
    url = f"https://serviceusage.googleapis.com/v1/projects/{project}/services"
    enabled = {
        service["config"]["name"]
        for service in live.google.items(url, "services", filter="state:ENABLED", pageSize="200")
    }
    on_dataproc = live.profile.runner in (Runner.SERVERLESS, Runner.CLUSTER)
    needed = (*NEEDED, *(NEEDED_BY_DATAPROC if on_dataproc else ()))
    missing = [name for name in needed if name not in enabled]
    if missing:
        text = f"{missing} are not enabled in project [{project}]."
        yield Finding(Level.FAIL, "APIs", text, f"gcloud services enable {' '.join(missing)} --project={project}")
    else:
        yield ok("APIs", f"all {len(needed)} are enabled.")
