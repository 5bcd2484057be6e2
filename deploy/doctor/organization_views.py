"""Checks that Airflow's account has the right to find materialized views in the other projects of the organization."""

from __future__ import annotations

from collections.abc import Iterator

from deploy.doctor.finding import Finding, Level, LiveEnvironment, advice_after, ok
from deploy.doctor.google_api import ApiError
from deploy.doctor.iam_policies import container_policy, containers_of_project, members_with

METADATA_VIEWER = "roles/bigquery.metadataViewer"


def check_organization_views(live: LiveEnvironment) -> Iterator[Finding]:
    """Findings about the account's role on the organization; none without `organization_views: true` in the profile."""
    if not live.profile.organization_views:
        return
    account, subject = live.airflow_environment.airflow, "materialized views"
    organization = next((c for c in containers_of_project(live) if c.startswith("organizations/")), None)
    if organization is None:
        text = f"project [{live.profile.project}] is in no organization, so no other project has views of its tables."
        yield Finding(Level.FAIL, subject, text, "(set `organization_views: false` in the profile)")
        return
    grant = f"gcloud organizations add-iam-policy-binding {organization.partition('/')[2]} --condition=None "
    try:
        members = members_with(container_policy(live, organization), METADATA_VIEWER)
    except ApiError as error:
        text = f"who may look for them in [{organization}] cannot be read, {error}"
        reviewer = f"{grant}--member=user:YOU --role=roles/iam.securityReviewer"
        missing = "(run the doctor again: the organization was there a moment ago)"
        yield Finding(Level.WARN, subject, text, advice_after(error, if_refused=reviewer, if_missing=missing))
        return
    if f"serviceAccount:{account}" in members:
        yield ok(subject, f"[{account}] may look for them in [{organization}].")
        return
    text = f"[{account}] lacks [{METADATA_VIEWER}] on [{organization}]: publishes fail, because they cannot "
    text += "look for materialized views in its other projects."
    command = f"{grant}--member=serviceAccount:{account} --role={METADATA_VIEWER}"
    yield Finding(Level.FAIL, subject, text, command)
