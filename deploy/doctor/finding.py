"""Defines a finding of the doctor, what each check gets, and how a check ends if Google does not let it read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

from dedup_clone.settings.deployment import Deployment
from dedup_clone.settings.feed import Feed
from dedup_clone.settings.spark_settings import Runner
from deploy.doctor.google_api import ApiError, GoogleApi
from deploy.environment_settings import Environment
from deploy.terraform_lists import Bucket, Grant, Principal


class Level(StrEnum):
    """How serious a finding is."""

    OK = "ok"
    NOTE = "note"  # for information
    WARN = "warn"  # publishes cost more or may fail later, or access or protection of data is not as intended
    FAIL = "fail"  # publishes fail, data may be lost, or nobody would be told of incidents


@dataclass(frozen=True)
class Finding:
    """One result of a check.

    `subject`: what was checked, in a few words. `command`: lines that say how to fix or examine the problem, each a
    shell command, a text in brackets, or the address of a web page; may be empty.
    """

    level: Level
    subject: str
    text: str
    command: str = ""


@dataclass(frozen=True)
class LiveEnvironment:
    """What the doctor checks: the settings of the deployment, and `google`, through which the live project is read.

    `airflow_environment`: the content of its file, such as deploy/environment.yaml. `profile`: the profile's settings.
    `feeds`: all feed files. `grants`: the content of deploy/terraform/grants.yaml.
    """

    google: GoogleApi
    airflow_environment: Environment
    profile: Deployment
    feeds: Sequence[Feed]
    grants: Sequence[Grant]

    @property
    def project(self) -> str:
        return self.profile.project

    @property
    def runners(self) -> frozenset[Runner]:
        """The profile's runner, and those that feeds name instead."""
        return frozenset({self.profile.runner, *(feed.runner for feed in self.feeds if feed.runner)})

    @property
    def creates_machines(self) -> bool:
        """Whether Dataproc creates machines for runs. A cluster has its network and account already."""
        return Runner.SERVERLESS in self.runners

    @property
    def accounts(self) -> dict[Principal, str | None]:
        """The service accounts; None for Spark's if the profile names none."""
        environment = self.airflow_environment
        return {
            Principal.AIRFLOW: environment.airflow,
            Principal.SPARK: self.profile.spark.service_account,
            Principal.PRODUCER: environment.producer,
        }

    @property
    def buckets(self) -> dict[Bucket, str | None]:
        """The names of the GCS buckets; None for Dataproc's staging bucket if the profile names none."""
        return {
            Bucket.LANDING: self.profile.landing_bucket,
            Bucket.STATE: self.profile.state_bucket,
            Bucket.ENVIRONMENT: self.airflow_environment.bucket,
            Bucket.SPARK_STAGING: self.profile.spark.staging_bucket,
        }


Check = Callable[[LiveEnvironment], Iterator[Finding]]


class CheckEnded(Exception):
    """A check could not read what it checks. `finding`: says so."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.text)
        self.finding = finding


@contextmanager
def reading(subject: str, what: str, *, if_refused: str, if_missing: str, level: Level = Level.FAIL) -> Iterator[None]:
    """In the block `what` is read from Google. Raises CheckEnded if Google answers with an error.

    `if_refused`: what to do if the user lacks the right to read it, often a command that grants a role. `if_missing`:
    what to do if it does not exist; a warning becomes a failure then.
    """
    try:
        yield
    except ApiError as error:
        text = f"{what} cannot be read, {error}"
        command = advice_after(error, if_refused=if_refused, if_missing=if_missing)
        level = Level.FAIL if level is Level.WARN and error.status == 404 else level
        raise CheckEnded(Finding(level, subject, text, command)) from error


def until_ended(findings: Iterator[Finding]) -> Iterator[Finding]:
    """The findings of a part of a check. If it ends with CheckEnded, the other parts still run."""
    try:
        yield from findings
    except CheckEnded as error:
        yield error.finding


def grant_to_user(project: str, role: str) -> str:
    """The command that grants a role on a project to the user who runs the doctor."""
    return f"gcloud projects add-iam-policy-binding {project} --member=user:YOU --role={role} --condition=None"


def advice_after(error: ApiError, *, if_refused: str, if_missing: str) -> str:
    """What to do, as a command or a text in brackets, when a Google API has answered with this error.

    For errors other than a refusal and a missing resource the advice depends on the HTTP status only.
    """
    if error.status == 401:
        return "gcloud auth application-default login"
    if error.status == 403:
        return if_refused
    if error.status == 404:
        return if_missing
    if error.status == 429 or error.status >= 500:
        return "(run the doctor again in some minutes: Google answers that it is busy, or has an error of its own)"
    return "(see Google's text: it says what is wrong with the question)"


def fail(subject: str, text: str, command: str = "") -> Finding:
    return Finding(Level.FAIL, subject, text, command)


def warn(subject: str, text: str, command: str = "") -> Finding:
    return Finding(Level.WARN, subject, text, command)


def note(subject: str, text: str, command: str = "") -> Finding:
    return Finding(Level.NOTE, subject, text, command)


def ok(subject: str, text: str) -> Finding:
    return Finding(Level.OK, subject, text)


def findings_as_text(findings: Sequence[Finding]) -> str:
    """The findings, worst first, each in a line with its command below, and a line with the counts."""
    order = [Level.FAIL, Level.WARN, Level.NOTE, Level.OK]
    lines = []
    for finding in sorted(findings, key=lambda finding: order.index(finding.level)):
        lines.append(f"{finding.level:<5} {finding.subject}: {finding.text}")
        lines += [f"        {line}" for line in finding.command.splitlines()]
    counts = ", ".join(f"{sum(f.level is level for f in findings)} {level}" for level in order)
    return "\n".join([*lines, "", counts])
