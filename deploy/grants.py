"""Who may do what: deploy/terraform/grants.yaml, read by the doctor, and the table in docs/security.md made from it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from pydantic import RootModel

from dedup_clone.settings.strict_yaml import StrictModel, read_model
from deploy.settings import REPOSITORY

GRANTS_FILE = REPOSITORY / "deploy" / "terraform" / "grants.yaml"


class Who(StrEnum):
    AIRFLOW = "airflow"
    SPARK = "spark"
    PRODUCER = "producer"


class Place(StrEnum):
    """Where a role is given. `spark`: on that service account itself."""

    PROJECT = "project"
    DATASET = "dataset"
    LANDING = "landing"
    STATE = "state"
    SPARK = "spark"


class Grant(StrictModel):
    """One role of one service account at one place."""

    who: Who
    role: str
    place: Place
    why: str


class _Grants(RootModel[tuple[Grant, ...]]):
    """The file is a list."""


def read_grants(path: Path = GRANTS_FILE) -> tuple[Grant, ...]:
    """Raises ConfigurationError that names file, line and key."""
    return read_model(_Grants, path).root


def as_table(grants: Sequence[Grant]) -> str:
    """The grants in Markdown."""
    words = {
        Place.PROJECT: "project",
        Place.DATASET: "the dataset",
        Place.LANDING: "the landing bucket",
        Place.STATE: "the state bucket",
        Place.SPARK: "the Spark service account",
    }
    lines = [f"| {grant.who} | `{grant.role}` | {words[grant.place]} | {grant.why} |" for grant in grants]
    return "\n".join(["| Service account | Role | On | Why |", "| --- | --- | --- | --- |", *lines])
