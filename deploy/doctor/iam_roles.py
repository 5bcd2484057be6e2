"""Checks that each role in deploy/terraform/grants.yaml is granted on its resource."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from deploy.doctor.dataset import read_dataset
from deploy.doctor.finding import Finding, Level, LiveEnvironment, ok
from deploy.doctor.google_api import ApiError
from deploy.grants import Grant, Principal, Resource

# The BigQuery API uses the old names of these three roles.
DATASET_ROLES = {
    "roles/bigquery.dataOwner": "OWNER",
    "roles/bigquery.dataEditor": "WRITER",
    "roles/bigquery.dataViewer": "READER",
}
BASIC_ROLES = frozenset({"roles/owner", "roles/editor"})


def check_access(live: LiveEnvironment) -> Iterator[Finding]:
    accounts = _accounts(live)
    if accounts[Principal.SPARK] is None:
        text = "the profile names no service account: Spark would run as the project's default account."
        command = "(set `spark.service_account` in dags/profiles/gcp.yaml; deploy/terraform makes one)"
        yield Finding(Level.FAIL, "Spark service account", text, command)
    yield from _missing_accounts(live, accounts)
    held: dict[Resource, set[tuple[str, str]]] = {}
    for resource in Resource:
        try:
            held[resource] = set(_members(live, resource, accounts[Principal.SPARK]))
        except ApiError as error:
            text = f"roles on {resource} cannot be read, {error}"
            command = f"gcloud projects add-iam-policy-binding {live.profile.project} --member=user:YOU "
            command += "--role=roles/iam.securityReviewer"
            yield Finding(Level.FAIL, f"roles on {resource}", text, command)
    missing = 0
    for grant in live.grants:
        account = accounts[grant.who]
        if account is not None and grant.place in held and (grant.role, account) not in held[grant.place]:
            missing += 1
            text = f"[{account}] lacks [{grant.role}] on {grant.place}: it {grant.why}."
            yield Finding(Level.FAIL, f"role of {grant.who}", text, _command(live, grant, account))
    if not missing:
        yield ok("roles", f"all of the {len(live.grants)} that could be checked are granted.")
    yield from _excessive_roles(live, accounts, held.get(Resource.PROJECT, set()))


def _accounts(live: LiveEnvironment) -> dict[Principal, str | None]:
    environment = live.airflow_environment
    return {
        Principal.AIRFLOW: environment.airflow,
        Principal.SPARK: live.profile.spark.service_account,
        Principal.PRODUCER: environment.producer,
    }


def _missing_accounts(live: LiveEnvironment, accounts: dict[Principal, str | None]) -> Iterator[Finding]:
    project = live.profile.project
    for who, account in accounts.items():
        if account is None:
            continue
        try:
            found = live.google.get(f"https://iam.googleapis.com/v1/projects/{project}/serviceAccounts/{account}")
        except ApiError as error:
            text = f"[{account}] cannot be read, {error}"
            command = f"gcloud iam service-accounts create {account.partition('@')[0]} --project={project}"
            yield Finding(Level.FAIL, f"service account of {who}", text, command)
        else:
            if found.get("disabled"):
                command = f"gcloud iam service-accounts enable {account} --project={project}"
                yield Finding(Level.FAIL, f"service account of {who}", f"[{account}] is disabled.", command)


def _excessive_roles(
    live: LiveEnvironment, accounts: dict[Principal, str | None], on_project: set[tuple[str, str]]
) -> Iterator[Finding]:
    for who, account in accounts.items():
        for role in sorted(role for role, member in on_project if member == account and role in BASIC_ROLES):
            project = live.profile.project
            command = (
                f"gcloud projects remove-iam-policy-binding {project} --member=serviceAccount:{account} --role={role}"
            )
            text = f"[{account}] has [{role}] on the project, which allows everything. "
            text += "The roles in deploy/terraform/grants.yaml are enough."
            yield Finding(Level.WARN, f"role of {who}", text, command)


def _members(live: LiveEnvironment, resource: Resource, spark: str | None) -> Iterator[tuple[str, str]]:
    """Pairs of role and service account on a resource. Conditional grants are left out, because they may not apply."""
    if resource is Resource.DATASET:
        for entry in read_dataset(live).get("access", []):
            if "userByEmail" in entry and "role" in entry:
                for role in _names_of(entry["role"]):
                    yield role, entry["userByEmail"]
        return
    for binding in _policy(live, resource, spark).get("bindings", []):
        if "condition" not in binding:
            for member in binding.get("members", []):
                yield binding["role"], member.removeprefix("serviceAccount:")


def _names_of(role: str) -> set[str]:
    return {role, *(new for new, old in DATASET_ROLES.items() if old == role)}


def _policy(live: LiveEnvironment, resource: Resource, spark: str | None) -> dict[str, Any]:
    profile = live.profile
    if resource is Resource.PROJECT:
        url = f"https://cloudresourcemanager.googleapis.com/v1/projects/{profile.project}:getIamPolicy"
        return live.google.policy(url)
    if resource is Resource.SPARK:
        if spark is None:
            return {}
        account = f"https://iam.googleapis.com/v1/projects/{profile.project}/serviceAccounts/{spark}"
        return live.google.policy(f"{account}:getIamPolicy")
    bucket = profile.landing_bucket if resource is Resource.LANDING else profile.state_bucket
    url = f"https://storage.googleapis.com/storage/v1/b/{bucket}/iam"
    return live.google.get(url, optionsRequestedPolicyVersion="3")


def _command(live: LiveEnvironment, grant: Grant, account: str) -> str:
    profile, member = live.profile, f"--member=serviceAccount:{account} --role={grant.role}"
    if grant.place is Resource.PROJECT:
        return f"gcloud projects add-iam-policy-binding {profile.project} {member} --condition=None"
    if grant.place is Resource.SPARK:
        return f"gcloud iam service-accounts add-iam-policy-binding {profile.spark.service_account} {member}"
    if grant.place is Resource.DATASET:
        dataset = f"`{profile.project}.{profile.dataset}`"
        return f"bq query --nouse_legacy_sql 'GRANT `{grant.role}` ON SCHEMA {dataset} TO \"serviceAccount:{account}\"'"
    bucket = profile.landing_bucket if grant.place is Resource.LANDING else profile.state_bucket
    return f"gcloud storage buckets add-iam-policy-binding gs://{bucket} {member}"
