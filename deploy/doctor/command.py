"""The verb `doctor`: runs all checks, and prints what they find. If one cannot read something, the others still run."""

from __future__ import annotations

import argparse
from pathlib import Path

from dedup_clone.settings.feed import read_feed
from deploy.doctor.airflow_environment import check_airflow
from deploy.doctor.bucket_writers import check_writers
from deploy.doctor.buckets import check_buckets
from deploy.doctor.dataset import check_dataset, check_row_policies
from deploy.doctor.finding import (
    Check,
    CheckEnded,
    Finding,
    Level,
    LiveEnvironment,
    findings_as_text,
    grant_to_user,
    reading,
)
from deploy.doctor.google_api import GoogleApi
from deploy.doctor.iam_roles import check_access
from deploy.doctor.network import check_network, check_region_quota
from deploy.doctor.project import (
    check_alerts,
    check_organization_views,
    check_policy_tags,
    check_services,
)
from deploy.doctor.runners import check_cluster, check_connection, check_runners, check_runtime_3, check_spark_code
from deploy.environment_settings import read_environment, read_profile
from deploy.terraform_lists import read_grants

SCOPES = ["https://www.googleapis.com/auth/cloud-platform.read-only"]
CHECKS: tuple[Check, ...] = (
    check_runners,
    check_services,
    check_buckets,
    check_dataset,
    check_access,
    check_row_policies,
    check_policy_tags,
    check_organization_views,
    check_writers,
    check_network,
    check_region_quota,
    check_cluster,
    check_runtime_3,
    check_spark_code,
    check_connection,
    check_airflow,
    check_alerts,
)


def run(options: argparse.Namespace, dags: Path) -> int:
    """Run all checks. Returns the exit status: 0, or 2 if a check has failed."""
    import google.auth
    from google.auth.transport.requests import AuthorizedSession

    profile = read_profile(dags)
    feeds = [read_feed(path) for path in sorted((dags / "feeds").glob("*.yaml"))]
    credentials, _ = google.auth.default(scopes=SCOPES, quota_project_id=profile.project)
    session = AuthorizedSession(credentials)  # type: ignore[no-untyped-call]
    findings = run_checks(LiveEnvironment(GoogleApi(session), read_environment(), profile, feeds, read_grants()))
    print(findings_as_text(findings))
    return 2 if any(finding.level is Level.FAIL for finding in findings) else 0


def run_checks(live: LiveEnvironment) -> list[Finding]:
    """The findings of all checks. An error of a Google API during a check is a finding, too."""
    findings = list[Finding]()
    viewer = grant_to_user(live.project, "roles/viewer")
    missing = f"(create what Google did not find, or correct its name in the profile; the project is [{live.project}])"
    for check in CHECKS:
        subject = check.__name__.removeprefix("check_")
        try:
            with reading(subject, "something", if_refused=viewer, if_missing=missing):
                for finding in check(live):
                    findings.append(finding)
        except CheckEnded as error:
            findings.append(error.finding)
    return findings
