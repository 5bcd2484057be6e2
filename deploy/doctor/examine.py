"""All checks, one after the other; none takes another down."""

from __future__ import annotations

from dedup_clone.settings.spark import Runner
from deploy.doctor.access import check_access
from deploy.doctor.airflow import check_airflow
from deploy.doctor.buckets import check_buckets
from deploy.doctor.capacity import check_capacity
from deploy.doctor.dataset import check_dataset
from deploy.doctor.finding import Check, Finding, Level, Patient
from deploy.doctor.google import Refused
from deploy.doctor.network import check_network
from deploy.doctor.services import check_services
from deploy.doctor.spark import check_spark

CHECKS: tuple[Check, ...] = (
    check_services,
    check_buckets,
    check_dataset,
    check_access,
    check_network,
    check_spark,
    check_airflow,
    check_capacity,
)


def examine(patient: Patient) -> list[Finding]:
    """Every finding of every check. An API that does not answer is a finding too."""
    findings = []
    if patient.profile.runner is Runner.LOCAL:
        text = "the profile runs Spark in Airflow's own workers, which Managed Airflow has no Java for."
        command = "(set `runner: serverless` in dags/profiles/gcp.yaml)"
        findings.append(Finding(Level.FAIL, "runner", text, command))
    for check in CHECKS:
        subject = check.__name__.removeprefix("check_")
        try:
            findings += check(patient)
        except Refused as refused:
            command = f"gcloud projects add-iam-policy-binding {patient.profile.project} --member=user:YOU "
            command += "--role=roles/viewer"
            findings.append(Finding(Level.FAIL, subject, f"could not be looked at, {refused}", command))
    return findings
