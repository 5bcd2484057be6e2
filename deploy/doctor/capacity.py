"""BigQuery's capacity: who loads, by the free pool or a reservation, and the project's quota of on-demand queries."""

from __future__ import annotations

from collections.abc import Iterator

from deploy.doctor.finding import Finding, Level, Patient, ok
from deploy.doctor.google import Refused

QUERY_USAGE = "bigquery.googleapis.com/quota/query/usage"


def check_capacity(patient: Patient) -> Iterator[Finding]:
    yield from _reservation(patient)
    yield from _quota(patient)


def _reservation(patient: Patient) -> Iterator[Finding]:
    project, location = patient.profile.project, patient.profile.location
    url = f"https://bigqueryreservation.googleapis.com/v1/projects/{project}/locations/{location}:searchAllAssignments"
    try:
        found = list(patient.google.items(url, "assignments", query=f"assignee=projects/{project}"))
    except Refused as refused:
        text = f"assignments cannot be read, {refused}. Without a reservation that is no fault."
        command = f"gcloud services enable bigqueryreservation.googleapis.com --project={project}"
        yield Finding(Level.NOTE, "reservation", text, command)
        return
    kinds = sorted({assignment["jobType"] for assignment in found if assignment.get("state") == "ACTIVE"})
    if "PIPELINE" in kinds:
        yield ok("reservation", "loads run in slots of their own.")
    else:
        text = (
            "loads use the free pool, which promises no throughput; docs/hour.md says when to buy slots and how many."
        )
        yield Finding(Level.NOTE, "reservation", text)
    if "QUERY" in kinds:
        text = "queries run in slots: the ledger's USD count bytes on demand and are not what is paid."
        yield Finding(Level.NOTE, "reservation", text)


def _quota(patient: Patient) -> Iterator[Finding]:
    project = patient.profile.project
    url = f"https://serviceusage.googleapis.com/v1beta1/projects/{project}/services/bigquery.googleapis.com"
    for metric in patient.google.items(f"{url}/consumerQuotaMetrics", "metrics"):
        if metric.get("metric") != QUERY_USAGE:
            continue
        for limit in metric.get("consumerQuotaLimits", []):
            for bucket in limit.get("quotaBuckets", []):
                text = f"[{bucket.get('effectiveLimit')}] in the unit [{limit.get('unit')}] (-1: no limit). The engine "
                text += "spark uses none of it; bigquery and merge read 4.83 and 5.66 times the table (docs/costs.md)."
                yield Finding(Level.NOTE, "quota of on-demand queries", text)
