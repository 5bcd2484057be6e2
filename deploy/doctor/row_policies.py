"""Checks that Airflow's account can clone the tables of feeds that declare row access policies or policy tags."""

from __future__ import annotations

from collections.abc import Iterator

from dedup_clone.warehouse.bigquery import READ_PAST
from deploy.doctor.dataset import read_dataset
from deploy.doctor.finding import Finding, Level, LiveEnvironment, advice_after, grant_to_user, ok
from deploy.doctor.google_api import ApiError
from deploy.doctor.iam_policies import RESOURCE_MANAGER, WITH_CONDITIONS, members_with

FINE_GRAINED_READER = "roles/datacatalog.categoryFineGrainedReader"
ROLE_ID = "dedupCloneReadPast"  # of the custom role that access.tf makes


def check_row_policies(live: LiveEnvironment) -> Iterator[Finding]:
    """Whether the account has the role that reads the past of tables with row access policies, if feeds declare any."""
    feeds = [feed for feed in live.feeds if feed.table.policies.row_access]
    if not feeds:
        return
    profile, account = live.profile, live.airflow_environment.airflow
    role = f"projects/{profile.project}/roles/{ROLE_ID}"
    access = read_dataset(live).get("access", [])
    names = ", ".join(feed.feed for feed in feeds)
    if any(entry.get("role") == role and entry.get("userByEmail") == account for entry in access):
        yield ok("row access policies", f"[{account}] may read the past of the tables of [{names}].")
        return
    text = (
        f"feeds [{names}] declare row access policies, but [{account}] lacks the custom role [{role}] on the dataset, "
    )
    text += f"which has the permission [{READ_PAST}]. Without it the check staging_access fails before the swap."
    command = (
        f"gcloud iam roles create {ROLE_ID} --project={profile.project} --permissions={READ_PAST}\n"
        f"bq query --nouse_legacy_sql 'GRANT `{role}` ON SCHEMA `{profile.project}.{profile.dataset}` "
        f'TO "serviceAccount:{account}"\''
    )
    yield Finding(Level.FAIL, "row access policies", text, command)


def check_policy_tags(live: LiveEnvironment) -> Iterator[Finding]:
    """Whether the account has, on each policy tag of a feed, the role that a clone needs.

    The role can also be granted on the project of the tag's taxonomy.
    """
    account = live.airflow_environment.airflow
    for tag in sorted({tag for feed in live.feeds for tag in feed.table.policies.column_tags.values()}):
        _, project, _, location, _, taxonomy, _, number = tag.split("/")
        resources = (f"https://datacatalog.googleapis.com/v1/{tag}", f"{RESOURCE_MANAGER}/v1/projects/{project}")
        try:
            may_read = any(_grants_reading(live, url, account) for url in resources)
        except ApiError as error:
            text = f"who may read [{tag}] cannot be read, {error}"
            reviewer = grant_to_user(project, "roles/iam.securityReviewer")
            command = advice_after(error, if_refused=reviewer, if_missing="(correct the tag in the feed's file)")
            yield Finding(Level.WARN, "policy tags", text, command)
            continue
        if may_read:
            yield ok("policy tags", f"[{account}] may clone columns with [{tag}].")
            continue
        text = f"[{account}] lacks [{FINE_GRAINED_READER}] on [{tag}]. Without it the swap is denied."
        command = (
            f"gcloud data-catalog taxonomies policy-tags add-iam-policy-binding {number} --taxonomy={taxonomy} "
            f"--location={location} --project={project} --member=serviceAccount:{account} --role={FINE_GRAINED_READER}"
        )
        yield Finding(Level.FAIL, "policy tags", text, command)


def _grants_reading(live: LiveEnvironment, resource: str, account: str) -> bool:
    policy = live.google.read_by_post(f"{resource}:getIamPolicy", WITH_CONDITIONS)
    return f"serviceAccount:{account}" in members_with(policy, FINE_GRAINED_READER)
