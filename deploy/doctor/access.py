"""Roles: each grant of deploy/terraform/grants.yaml is looked for where it is given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from deploy.doctor.dataset import read_dataset
from deploy.doctor.finding import Finding, Level, Patient, ok
from deploy.doctor.google import Refused
from deploy.grants import Grant, Place, Who

# BigQuery writes these three by their old names.
DATASET_ROLES = {
    "roles/bigquery.dataOwner": "OWNER",
    "roles/bigquery.dataEditor": "WRITER",
    "roles/bigquery.dataViewer": "READER",
}
BASIC_ROLES = frozenset({"roles/owner", "roles/editor"})


def check_access(patient: Patient) -> Iterator[Finding]:
    accounts = _accounts(patient)
    if accounts[Who.SPARK] is None:
        text = "the profile names no service account: Spark would run as the project's default one."
        command = "(set `spark.service_account` in dags/profiles/gcp.yaml; deploy/terraform makes one)"
        yield Finding(Level.FAIL, "Spark service account", text, command)
    yield from _missing_accounts(patient, accounts)
    held: dict[Place, set[tuple[str, str]]] = {}
    for place in Place:
        try:
            held[place] = set(_members(patient, place, accounts[Who.SPARK]))
        except Refused as refused:
            text = f"roles on {place} cannot be read, {refused}"
            command = f"gcloud projects add-iam-policy-binding {patient.profile.project} --member=user:YOU "
            command += "--role=roles/iam.securityReviewer"
            yield Finding(Level.FAIL, f"roles on {place}", text, command)
    missing = 0
    for grant in patient.grants:
        account = accounts[grant.who]
        if account is not None and grant.place in held and (grant.role, account) not in held[grant.place]:
            missing += 1
            text = f"[{account}] lacks [{grant.role}] on {grant.place}: it {grant.why}."
            yield Finding(Level.FAIL, f"role of {grant.who}", text, _command(patient, grant, account))
    if not missing:
        yield ok("roles", f"all {len(patient.grants)} that could be looked for are granted.")
    yield from _too_much(patient, accounts, held.get(Place.PROJECT, set()))


def _accounts(patient: Patient) -> dict[Who, str | None]:
    environment = patient.environment
    return {
        Who.AIRFLOW: environment.airflow,
        Who.SPARK: patient.profile.spark.service_account,
        Who.PRODUCER: environment.producer,
    }


def _missing_accounts(patient: Patient, accounts: dict[Who, str | None]) -> Iterator[Finding]:
    project = patient.profile.project
    for who, account in accounts.items():
        if account is None:
            continue
        try:
            found = patient.google.get(f"https://iam.googleapis.com/v1/projects/{project}/serviceAccounts/{account}")
        except Refused as refused:
            text = f"[{account}] cannot be read, {refused}"
            command = f"gcloud iam service-accounts create {account.partition('@')[0]} --project={project}"
            yield Finding(Level.FAIL, f"service account of {who}", text, command)
        else:
            if found.get("disabled"):
                command = f"gcloud iam service-accounts enable {account} --project={project}"
                yield Finding(Level.FAIL, f"service account of {who}", f"[{account}] is disabled.", command)


def _too_much(patient: Patient, accounts: dict[Who, str | None], on_project: set[tuple[str, str]]) -> Iterator[Finding]:
    for who, account in accounts.items():
        for role in sorted(role for role, member in on_project if member == account and role in BASIC_ROLES):
            project = patient.profile.project
            command = (
                f"gcloud projects remove-iam-policy-binding {project} --member=serviceAccount:{account} --role={role}"
            )
            text = f"[{account}] has [{role}] on the project, which is everything: the grants listed are enough."
            yield Finding(Level.WARN, f"role of {who}", text, command)


def _members(patient: Patient, place: Place, spark: str | None) -> Iterator[tuple[str, str]]:
    """(role, service account) at `place`. Grants under a condition are not counted: they may not apply."""
    if place is Place.DATASET:
        for entry in read_dataset(patient).get("access", []):
            if "userByEmail" in entry and "role" in entry:
                for role in _names_of(entry["role"]):
                    yield role, entry["userByEmail"]
        return
    for binding in _policy(patient, place, spark).get("bindings", []):
        if "condition" not in binding:
            for member in binding.get("members", []):
                yield binding["role"], member.removeprefix("serviceAccount:")


def _names_of(role: str) -> set[str]:
    return {role, *(new for new, old in DATASET_ROLES.items() if old == role)}


def _policy(patient: Patient, place: Place, spark: str | None) -> dict[str, Any]:
    profile = patient.profile
    if place is Place.PROJECT:
        url = f"https://cloudresourcemanager.googleapis.com/v1/projects/{profile.project}:getIamPolicy"
        return patient.google.policy(url)
    if place is Place.SPARK:
        if spark is None:
            return {}
        account = f"https://iam.googleapis.com/v1/projects/{profile.project}/serviceAccounts/{spark}"
        return patient.google.policy(f"{account}:getIamPolicy")
    bucket = profile.landing_bucket if place is Place.LANDING else profile.state_bucket
    url = f"https://storage.googleapis.com/storage/v1/b/{bucket}/iam"
    return patient.google.get(url, optionsRequestedPolicyVersion="3")


def _command(patient: Patient, grant: Grant, account: str) -> str:
    profile, member = patient.profile, f"--member=serviceAccount:{account} --role={grant.role}"
    if grant.place is Place.PROJECT:
        return f"gcloud projects add-iam-policy-binding {profile.project} {member} --condition=None"
    if grant.place is Place.SPARK:
        return f"gcloud iam service-accounts add-iam-policy-binding {profile.spark.service_account} {member}"
    if grant.place is Place.DATASET:
        dataset = f"`{profile.project}.{profile.dataset}`"
        return f"bq query --nouse_legacy_sql 'GRANT `{grant.role}` ON SCHEMA {dataset} TO \"serviceAccount:{account}\"'"
    bucket = profile.landing_bucket if grant.place is Place.LANDING else profile.state_bucket
    return f"gcloud storage buckets add-iam-policy-binding gs://{bucket} {member}"
