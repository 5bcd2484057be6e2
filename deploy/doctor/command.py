"""The verb `doctor`: runs all checks, and prints what they find. If one cannot read something, the others still run."""

from __future__ import annotations

import argparse
from pathlib import Path

from dedup_clone.settings.feed import read_feed
from deploy.doctor import airflow_environment, buckets, dataset, iam_roles, network, project, runners
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
from deploy.environment_settings import read_environment, read_profile
from deploy.terraform_lists import read_grants

SCOPES = ["https://www.googleapis.com/auth/cloud-platform.read-only"]
CHECKS: tuple[Check, ...] = (
    runners.check_runners,
    project.check_services,
    buckets.check_buckets,
    dataset.check_dataset,
    iam_roles.check_access,
    dataset.check_row_policies,
    project.check_policy_tags,
    network.check_network,
    network.check_region_quota,
    runners.check_cluster,
    runners.check_runtime_3,
    runners.check_spark_code,
    runners.check_connection,
    airflow_environment.check_airflow,
    project.check_alerts,
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
