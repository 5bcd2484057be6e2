"""Checks the project: enabled APIs, notifiers, and rights that few feeds or profiles need."""

from __future__ import annotations

from collections.abc import Iterator

from deploy.doctor.finding import (
    Finding,
    Level,
    LiveEnvironment,
    fail,
    grant_to_user,
    ok,
    reading,
    until_ended,
)
from deploy.doctor.iam_policies import (
    RESOURCE_MANAGER,
    members_with,
    policy_at,
)
from deploy.terraform_lists import needed_apis, read_required_apis

FINE_GRAINED_READER = "roles/datacatalog.categoryFineGrainedReader"


def check_services(live: LiveEnvironment) -> Iterator[Finding]:
    project = live.project
    url = f"https://serviceusage.googleapis.com/v1/projects/{project}/services"
    enabled = {
        service["config"]["name"]
        for service in live.google.items(url, "services", filter="state:ENABLED", pageSize="200")
    }
    needed = needed_apis(live.runners, live.profile.spark.runtime_version, read_required_apis())
    missing = [needed_api for needed_api in needed if needed_api.api not in enabled]
    if missing:
        reasons = "; ".join(f"[{service.api}] {service.why}" for service in missing)
        command = f"gcloud services enable {' '.join(service.api for service in missing)} --project={project}"
        yield fail("APIs", f"not enabled in project [{project}]: {reasons}.", command)
    else:
        yield ok("APIs", f"all {len(needed)} are enabled.")


def check_alerts(live: LiveEnvironment) -> Iterator[Finding]:
    """The profile must name a notifier; otherwise incidents appear only in the log and on the page."""
    if count := len(live.profile.alerts.notifiers):
        yield ok("alerts", f"[{count}] notifier(s); docs/alerts-and-metrics.md says how to test them.")
        return
    text = "nobody is told of incidents: the profile names no notifier."
    yield fail("alerts", text, "(add `notifiers` to section `alerts` of the profile; docs/alerts-and-metrics.md)")


def check_policy_tags(live: LiveEnvironment) -> Iterator[Finding]:
    """Whether Airflow's account has, on each policy tag of a feed, the role that a clone needs."""
    for tag in sorted({tag for feed in live.feeds for tag in feed.table.policies.column_tags.values()}):
        yield from until_ended(_policy_tag(live, tag))


def _policy_tag(live: LiveEnvironment, tag: str) -> Iterator[Finding]:
    """The role can also be granted on the project of the tag's taxonomy."""
    account, subject = live.airflow_environment.airflow, "policy tags"
    _, project, _, location, _, taxonomy, _, number = tag.split("/")
    resources = (f"https://datacatalog.googleapis.com/v1/{tag}", f"{RESOURCE_MANAGER}/v1/projects/{project}")
    reviewer, missing = grant_to_user(project, "roles/iam.securityReviewer"), "(correct the tag in the feed's file)"
    with reading(subject, f"who may read [{tag}]", if_refused=reviewer, if_missing=missing, level=Level.WARN):
        policies = (policy_at(live, url) for url in resources)
        may_read = any(f"serviceAccount:{account}" in members_with(p, FINE_GRAINED_READER) for p in policies)
    if may_read:
        yield ok(subject, f"[{account}] may clone columns with [{tag}].")
        return
    command = (
        f"gcloud data-catalog taxonomies policy-tags add-iam-policy-binding {number} --taxonomy={taxonomy} "
        f"--location={location} --project={project} --member=serviceAccount:{account} --role={FINE_GRAINED_READER}"
    )
    text = f"[{account}] lacks [{FINE_GRAINED_READER}] on [{tag}]. Without it the swap is denied."
    yield fail(subject, text, command)
