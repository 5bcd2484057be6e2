"""Reports with which slots BigQuery runs load jobs and queries, and how many bytes on-demand queries may read.

These are notes for the operator: none of the findings prevents publishes.
"""

from __future__ import annotations

from collections.abc import Iterator

from deploy.doctor.finding import Finding, Level, LiveEnvironment, advice_after, grant_to_user, ok
from deploy.doctor.google_api import ApiError

# The quota metric of the bytes that on-demand queries may read.
QUERY_USAGE = "bigquery.googleapis.com/quota/query/usage"


def check_capacity(live: LiveEnvironment) -> Iterator[Finding]:
    yield from _reservation(live)
    yield from _quota(live)


def _reservation(live: LiveEnvironment) -> Iterator[Finding]:
    project, location = live.profile.project, live.profile.location
    url = f"https://bigqueryreservation.googleapis.com/v1/projects/{project}/locations/{location}:searchAllAssignments"
    try:
        assignments = list(live.google.items(url, "assignments", query=f"assignee=projects/{project}"))
    except ApiError as error:
        text = f"reservations cannot be read, {error}. Ignore this if the project has none."
        enable = f"gcloud services enable bigqueryreservation.googleapis.com --project={project}"
        command = advice_after(error, if_refused=enable, if_missing=f"(correct `location: {location}` in the profile)")
        yield Finding(Level.NOTE, "reservation", text, command)
        return
    job_types = sorted({assignment["jobType"] for assignment in assignments if assignment.get("state") == "ACTIVE"})
    if "PIPELINE" in job_types:
        yield ok("reservation", "loads run in reserved slots.")
    else:
        text = "loads run in shared free slots, without a guaranteed speed (docs/costs-and-limits.md, Plan one hour)."
        yield Finding(Level.NOTE, "reservation", text)
    if "QUERY" in job_types:
        text = "queries run in reserved slots, but the ledger shows on-demand prices: you pay other amounts."
        yield Finding(Level.NOTE, "reservation", text)


def _quota(live: LiveEnvironment) -> Iterator[Finding]:
    project = live.profile.project
    url = f"https://serviceusage.googleapis.com/v1beta1/projects/{project}/services/bigquery.googleapis.com"
    try:
        metrics = list(live.google.items(f"{url}/consumerQuotaMetrics", "metrics"))
    except ApiError as error:
        text = f"cannot be read, {error}"
        viewer, missing = grant_to_user(project, "roles/viewer"), f"(correct `project: {project}` in the profile)"
        command = advice_after(error, if_refused=viewer, if_missing=missing)
        yield Finding(Level.NOTE, "quota of on-demand queries", text, command)
        return
    for metric in metrics:
        if metric.get("metric") != QUERY_USAGE:
            continue
        for limit in metric.get("consumerQuotaLimits", []):
            for quota in limit.get("quotaBuckets", []):
                text = (
                    f"[{quota.get('effectiveLimit')}] in the unit [{limit.get('unit')}] (-1: no limit). Engine spark "
                )
                text += (
                    "uses nearly nothing of it; for each publish engine bigquery reads 4.83 times the table, engine "
                )
                text += "merge 5.67 times (docs/costs-and-limits.md)."
                yield Finding(Level.NOTE, "quota of on-demand queries", text)
