"""Runs all checks of the doctor. If a check cannot read what it checks, all others still run."""

from __future__ import annotations

from collections.abc import Iterator

from dedup_clone.settings.spark_settings import Runner
from deploy.doctor.airflow_environment import check_airflow
from deploy.doctor.alerts import check_alerts
from deploy.doctor.bucket_settings import check_buckets
from deploy.doctor.bucket_writers import check_writers
from deploy.doctor.capacity import check_capacity
from deploy.doctor.dataset import check_dataset
from deploy.doctor.enabled_apis import check_services
from deploy.doctor.finding import Check, Finding, Level, LiveEnvironment, advice_after, grant_to_user
from deploy.doctor.google_api import ApiError
from deploy.doctor.iam_roles import check_access
from deploy.doctor.network import check_network
from deploy.doctor.procedure_connection import check_connection
from deploy.doctor.row_policies import check_policy_tags, check_row_policies
from deploy.doctor.spark_checks import check_spark

CHECKS: tuple[Check, ...] = (
    check_services,
    check_buckets,
    check_dataset,
    check_access,
    check_row_policies,
    check_policy_tags,
    check_writers,
    check_network,
    check_spark,
    check_connection,
    check_airflow,
    check_alerts,
    check_capacity,
)


def run_checks(live: LiveEnvironment) -> list[Finding]:
    """The findings of all checks. An error of a Google API during a check is a finding, too."""
    findings = list(_check_runners(live))
    for check in CHECKS:
        subject = check.__name__.removeprefix("check_")
        try:
            findings += check(live)
        except ApiError as error:
            project = live.profile.project
            missing = (
                f"(create what Google did not find, or correct its name in the profile; the project is [{project}])"
            )
            advice = advice_after(error, if_refused=grant_to_user(project, "roles/viewer"), if_missing=missing)
            findings.append(Finding(Level.FAIL, subject, f"could not be checked, {error}", advice))
    return findings


def _check_runners(live: LiveEnvironment) -> Iterator[Finding]:
    for runner in sorted(live.runners):
        missing = live.profile.spark.missing_setting(runner)
        if runner is Runner.LOCAL:
            text = "the profile or a feed runs Spark in Airflow's workers, but Managed Airflow has no Java."
            yield Finding(Level.FAIL, "runner", text, "(set `runner: serverless` in the profile or the feed's file)")
        elif missing is not None:
            feeds = ", ".join(feed.feed for feed in live.feeds if feed.runner is runner)
            text = f"feeds [{feeds}] have runner [{runner}], which needs [spark.{missing}] in the profile."
            command = f"(set `spark.{missing}` in the profile, or another `runner` in the feeds' files)"
            yield Finding(Level.FAIL, "runner", text, command)
