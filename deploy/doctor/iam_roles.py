"""Checks that service accounts exist and have the roles in deploy/terraform/grants.yaml, but not owner or editor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from deploy.doctor.dataset import read_dataset
from deploy.doctor.finding import (
    Finding,
    LiveEnvironment,
    advice_after,
    fail,
    grant_to_user,
    ok,
    reading,
    until_ended,
    warn,
)
from deploy.doctor.google_api import ApiError
from deploy.doctor.iam_policies import bucket_policy, project_policy
from deploy.terraform_lists import Bucket, Grant, Principal, Resource, bucket_condition

# The BigQuery API uses the old names of these three roles.
DATASET_ROLES = {
    "roles/bigquery.dataOwner": "OWNER",
    "roles/bigquery.dataEditor": "WRITER",
    "roles/bigquery.dataViewer": "READER",
}
BASIC_ROLES = frozenset({"roles/owner", "roles/editor"})

_Granted = tuple[str, str, str]  # a role, the account that has it, the text of its condition ("" without one)


def check_access(live: LiveEnvironment) -> Iterator[Finding]:
    if live.accounts[Principal.SPARK] is None and live.creates_machines:
        text = "the profile names no service account: Spark would run as the project's default account."
        yield fail("Spark service account", text, "(set `spark.service_account` in the profile; Terraform makes one)")
    for who, account in live.accounts.items():
        if account is not None:
            yield from until_ended(_account(live, who, account))
    granted: dict[Resource, set[_Granted]] = {}
    for resource in Resource:
        try:
            granted[resource] = set(_granted_roles(live, resource))
        except ApiError as error:
            if error.status != 404:  # another check says that the resource is missing
                reviewer = grant_to_user(live.project, "roles/iam.securityReviewer")
                command = advice_after(error, if_refused=reviewer, if_missing="")
                yield fail(f"roles on {resource}", f"roles on {resource} cannot be read, {error}", command)
    accounts = {who: account for who, account in live.accounts.items() if account is not None}
    checked = [grant for grant in live.grants if grant.who in accounts and grant.place in granted]
    findings = [f for g in checked if (f := _grant_finding(live, g, accounts[g.who], granted[g.place]))]
    yield from findings
    if not findings:
        yield ok("roles", f"{len(checked)} of {len(live.grants)} grants could be checked, and all are granted.")
    for who, account in accounts.items():
        yield from _excessive_roles(live, who, account, granted.get(Resource.PROJECT, set()))


def _account(live: LiveEnvironment, who: Principal, account: str) -> Iterator[Finding]:
    """A finding if the service account is missing, unreadable or disabled."""
    project, subject = _project_of(account, live.project), f"service account of {who}"
    create = f"gcloud iam service-accounts create {account.partition('@')[0]} --project={project}"
    with reading(subject, f"[{account}]", if_refused=grant_to_user(project, "roles/viewer"), if_missing=create):
        found = live.google.get(_account_url(project, account))
    if found.get("disabled"):
        command = f"gcloud iam service-accounts enable {account} --project={project}"
        yield fail(subject, f"[{account}] is disabled.", command)


def _project_of(account: str, default: str) -> str:
    """The project of a service account, which its name contains; `default` if the name contains none."""
    domain = account.partition("@")[2]
    name = domain.removesuffix(".iam.gserviceaccount.com")
    if name == domain:  # such as 42-compute@developer.gserviceaccount.com
        return default
    project, _, organization = name.partition(".")  # for project example.com:p the name is p.example.com
    return f"{organization}:{project}" if organization else project


def _account_url(project: str, account: str) -> str:
    return f"https://iam.googleapis.com/v1/projects/{project}/serviceAccounts/{account}"


def _grant_finding(live: LiveEnvironment, grant: Grant, account: str, granted: set[_Granted]) -> Finding | None:
    """A finding if the grant is missing or lacks its condition.

    Without the condition the role applies to every GCS bucket of the project.
    """
    bucket = live.buckets[grant.only_bucket] if grant.only_bucket else None
    condition = bucket_condition(bucket) if bucket else ""
    subject, command = f"role of {grant.who}", _grant_command(live, grant, account, condition)
    if condition and (grant.role, account, "") in granted:
        text = f"[{account}] has [{grant.role}] on the project without a condition: it may write every bucket of the "
        text += f"project, expected only [{bucket}]."
        return warn(subject, text, f"{command}\n{_removal(live, account, grant.role)}")
    if (grant.role, account, condition) in granted:
        return None
    text = f"[{account}] lacks [{grant.role}] on {grant.place}{f' for bucket [{bucket}]' if bucket else ''}. "
    text += f"Why it needs the role: {grant.why}."
    if grant.only_bucket is Bucket.SPARK_STAGING and bucket is None:
        text = f"[{account}] lacks [{grant.role}]. The command below grants it on every bucket of the project; to "
        text += "limit it to one bucket, set `spark.staging_bucket` in the profile first."
    return fail(subject, text, command)


def _excessive_roles(
    live: LiveEnvironment, who: Principal, account: str, project_grants: set[_Granted]
) -> Iterator[Finding]:
    for role in sorted(role for role, member, _ in project_grants if member == account and role in BASIC_ROLES):
        text = f"[{account}] has [{role}] on the project, which allows everything. "
        text += "The roles in deploy/terraform/grants.yaml are enough."
        yield warn(f"role of {who}", text, _removal(live, account, role))


def _removal(live: LiveEnvironment, account: str, role: str) -> str:
    """The command that removes an unconditional grant on the project."""
    member = f"--member=serviceAccount:{account} --role={role}"
    return f"gcloud projects remove-iam-policy-binding {live.project} {member} --condition=None"


def _granted_roles(live: LiveEnvironment, resource: Resource) -> Iterator[_Granted]:
    """The roles that are granted on a resource, each with its member and condition. Raises ApiError."""
    if resource is Resource.DATASET:
        for entry in read_dataset(live).get("access", []):
            if "userByEmail" in entry and "role" in entry:
                for role in _role_names(entry["role"]):
                    yield role, entry["userByEmail"], entry.get("condition", {}).get("expression", "")
        return
    for binding in _policy(live, resource).get("bindings", []):
        for member in binding.get("members", []):
            condition = binding.get("condition", {}).get("expression", "")
            yield binding["role"], member.removeprefix("serviceAccount:"), condition


def _role_names(role: str) -> set[str]:
    """The role of a dataset's access entry, and the IAM role of which it is the old name."""
    return {role, *(new for new, old in DATASET_ROLES.items() if old == role)}


def _policy(live: LiveEnvironment, resource: Resource) -> dict[str, Any]:
    if resource is Resource.PROJECT:
        return project_policy(live)
    if resource is not Resource.SPARK:
        return bucket_policy(live, str(live.buckets[Bucket(resource.value)]))
    account = live.accounts[Principal.SPARK]
    if account is None:
        return {}
    url = _account_url(_project_of(account, live.project), account)
    # The other getIamPolicy methods take the version in the body, this one as a query parameter.
    return live.google.read_by_post(f"{url}:getIamPolicy", {}, **{"options.requestedPolicyVersion": "3"})


def _grant_command(live: LiveEnvironment, grant: Grant, account: str, condition: str) -> str:
    profile, member = live.profile, f"--member=serviceAccount:{account} --role={grant.role}"
    if grant.place is Resource.PROJECT:
        limit = f"'expression={condition},title=only_bucket_{grant.only_bucket}'" if condition else "None"
        return f"gcloud projects add-iam-policy-binding {profile.project} {member} --condition={limit}"
    if grant.place is Resource.SPARK:
        return f"gcloud iam service-accounts add-iam-policy-binding {profile.spark.service_account} {member}"
    if grant.place is Resource.DATASET:
        dataset = f"`{profile.project}.{profile.dataset}`"
        return f"bq query --nouse_legacy_sql 'GRANT `{grant.role}` ON SCHEMA {dataset} TO \"serviceAccount:{account}\"'"
    return f"gcloud storage buckets add-iam-policy-binding gs://{live.buckets[Bucket(grant.place.value)]} {member}"
