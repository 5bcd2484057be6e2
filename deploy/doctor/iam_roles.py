"""Checks that service accounts exist and have the roles in deploy/terraform/grants.yaml, but not owner or editor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from deploy.doctor.dataset import read_dataset
from deploy.doctor.finding import Finding, Level, LiveEnvironment, advice_after, grant_to_user, ok
from deploy.doctor.google_api import ApiError
from deploy.doctor.iam_policies import bucket_name, bucket_policy, project_policy
from deploy.grants import Bucket, Grant, Principal, Resource, bucket_condition

# The BigQuery API uses the old names of these three roles.
DATASET_ROLES = {
    "roles/bigquery.dataOwner": "OWNER",
    "roles/bigquery.dataEditor": "WRITER",
    "roles/bigquery.dataViewer": "READER",
}
BASIC_ROLES = frozenset({"roles/owner", "roles/editor"})

_Granted = tuple[str, str, str]  # a role, the account that has it, the text of its condition ("" without one)


def check_access(live: LiveEnvironment) -> Iterator[Finding]:
    accounts = _accounts(live)
    if accounts[Principal.SPARK] is None and live.creates_machines:
        text = "the profile names no service account: Spark would run as the project's default account."
        command = "(set `spark.service_account` in the profile; deploy/terraform makes one)"
        yield Finding(Level.FAIL, "Spark service account", text, command)
    yield from _account_findings(live, accounts)
    granted: dict[Resource, set[_Granted]] = {}
    for resource in Resource:
        try:
            granted[resource] = set(_granted_roles(live, resource, accounts[Principal.SPARK]))
        except ApiError as error:
            if error.status == 404:
                continue  # another check says that the resource is missing
            text = f"roles on {resource} cannot be read, {error}"
            reviewer = grant_to_user(live.profile.project, "roles/iam.securityReviewer")
            command = advice_after(error, if_refused=reviewer, if_missing="")  # not missing: see above
            yield Finding(Level.FAIL, f"roles on {resource}", text, command)
    findings, checked = list[Finding](), 0
    for grant in live.grants:
        account = accounts[grant.who]
        if account is not None and grant.place in granted:
            checked += 1
            findings += _grant_findings(live, grant, account, granted[grant.place])
    yield from findings
    if not findings:
        yield ok("roles", f"{checked} of {len(live.grants)} grants could be checked, and all of these are granted.")
    yield from _excessive_roles(live, accounts, granted.get(Resource.PROJECT, set()))


def _grant_findings(live: LiveEnvironment, grant: Grant, account: str, granted: set[_Granted]) -> Iterator[Finding]:
    """A finding if the grant is missing or lacks its condition.

    Without the condition the role applies to every GCS bucket of the project.
    """
    bucket = bucket_name(live, grant.only_bucket) if grant.only_bucket else None
    condition = bucket_condition(bucket) if bucket else ""
    if condition and (grant.role, account, "") in granted:
        text = f"[{account}] has [{grant.role}] on the project without a condition: it may write every bucket of the "
        text += f"project, expected only [{bucket}]."
        remove = f"gcloud projects remove-iam-policy-binding {live.profile.project} "
        remove += f"--member=serviceAccount:{account} --role={grant.role} --condition=None"
        yield Finding(
            Level.WARN, f"role of {grant.who}", text, f"{_grant_command(live, grant, account, condition)}\n{remove}"
        )
    elif (grant.role, account, condition) not in granted:
        text = f"[{account}] lacks [{grant.role}] on {grant.place}{f' for bucket [{bucket}]' if bucket else ''}. "
        text += f"Why it needs the role: {grant.why}."
        if grant.only_bucket is Bucket.SPARK_STAGING and bucket is None:
            text = (
                f"[{account}] lacks [{grant.role}]. The command below grants it on every bucket of the project; to "
                f"limit it to one bucket, set `spark.staging_bucket` in the profile first."
            )
        yield Finding(Level.FAIL, f"role of {grant.who}", text, _grant_command(live, grant, account, condition))


def _accounts(live: LiveEnvironment) -> dict[Principal, str | None]:
    environment = live.airflow_environment
    return {
        Principal.AIRFLOW: environment.airflow,
        Principal.SPARK: live.profile.spark.service_account,
        Principal.PRODUCER: environment.producer,
    }


def _project_of(account: str, default: str) -> str:
    """The project of a service account, which its name contains; `default` if the name contains none."""
    domain = account.partition("@")[2]
    name = domain.removesuffix(".iam.gserviceaccount.com")
    if name == domain:  # such as 42-compute@developer.gserviceaccount.com
        return default
    project, _, organization = name.partition(".")  # for project example.com:p the name is p.example.com
    return f"{organization}:{project}" if organization else project


def _account_findings(live: LiveEnvironment, accounts: dict[Principal, str | None]) -> Iterator[Finding]:
    """Findings about service accounts that are missing, unreadable or disabled."""
    for who, account in accounts.items():
        if account is None:
            continue
        project = _project_of(account, live.profile.project)
        try:
            found = live.google.get(f"https://iam.googleapis.com/v1/projects/{project}/serviceAccounts/{account}")
        except ApiError as error:
            text = f"[{account}] cannot be read, {error}"
            create = f"gcloud iam service-accounts create {account.partition('@')[0]} --project={project}"
            command = advice_after(error, if_refused=grant_to_user(project, "roles/viewer"), if_missing=create)
            yield Finding(Level.FAIL, f"service account of {who}", text, command)
        else:
            if found.get("disabled"):
                command = f"gcloud iam service-accounts enable {account} --project={project}"
                yield Finding(Level.FAIL, f"service account of {who}", f"[{account}] is disabled.", command)


def _excessive_roles(
    live: LiveEnvironment, accounts: dict[Principal, str | None], project_grants: set[_Granted]
) -> Iterator[Finding]:
    for who, account in accounts.items():
        for role in sorted(role for role, member, _ in project_grants if member == account and role in BASIC_ROLES):
            project = live.profile.project
            command = (
                f"gcloud projects remove-iam-policy-binding {project} --member=serviceAccount:{account} --role={role} "
                f"--condition=None"
            )
            text = f"[{account}] has [{role}] on the project, which allows everything. "
            text += "The roles in deploy/terraform/grants.yaml are enough."
            yield Finding(Level.WARN, f"role of {who}", text, command)


def _granted_roles(live: LiveEnvironment, resource: Resource, spark_account: str | None) -> Iterator[_Granted]:
    """The roles that are granted on a resource, each with its member and condition."""
    if resource is Resource.DATASET:
        for entry in read_dataset(live).get("access", []):
            if "userByEmail" in entry and "role" in entry:
                for role in _role_names(entry["role"]):
                    yield role, entry["userByEmail"], entry.get("condition", {}).get("expression", "")
        return
    for binding in _policy(live, resource, spark_account).get("bindings", []):
        for member in binding.get("members", []):
            condition = binding.get("condition", {}).get("expression", "")
            yield binding["role"], member.removeprefix("serviceAccount:"), condition


def _role_names(role: str) -> set[str]:
    """The role of a dataset's access entry, and the IAM role of which it is the old name."""
    return {role, *(new for new, old in DATASET_ROLES.items() if old == role)}


def _policy(live: LiveEnvironment, resource: Resource, spark_account: str | None) -> dict[str, Any]:
    profile = live.profile
    if resource is Resource.PROJECT:
        return project_policy(live)
    if resource is Resource.SPARK:
        if spark_account is None:
            return {}
        project = _project_of(spark_account, profile.project)
        account = f"https://iam.googleapis.com/v1/projects/{project}/serviceAccounts/{spark_account}"
        # The other getIamPolicy methods take the version in the body, this one as a query parameter.
        return live.google.read_by_post(f"{account}:getIamPolicy", {}, **{"options.requestedPolicyVersion": "3"})
    return bucket_policy(live, str(bucket_name(live, Bucket(resource.value))))


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
    bucket = bucket_name(live, Bucket(grant.place.value))
    return f"gcloud storage buckets add-iam-policy-binding gs://{bucket} {member}"
