"""What the doctor says: a subject, how it stands, and the command that mends it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from dedup_clone.settings.deployment import Deployment
from deploy.doctor.google import Google
from deploy.grants import Grant
from deploy.settings import Environment


class Level(StrEnum):
    """`fail`: publishes do not work, or lose data. `warn`: they cost more or break some day."""

    OK = "ok"
    NOTE = "note"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Finding:
    """`command` mends it; empty when there is nothing to mend."""

    level: Level
    subject: str
    text: str
    command: str = ""


@dataclass(frozen=True)
class Patient:
    """What is looked at, and through what."""

    google: Google
    environment: Environment
    profile: Deployment
    grants: Sequence[Grant]


Check = Callable[[Patient], Iterator[Finding]]


def ok(subject: str, text: str) -> Finding:
    return Finding(Level.OK, subject, text)


def as_text(findings: Sequence[Finding]) -> str:
    """One line a finding, worst first, with the command below it."""
    order = [Level.FAIL, Level.WARN, Level.NOTE, Level.OK]
    lines = []
    for finding in sorted(findings, key=lambda finding: order.index(finding.level)):
        lines.append(f"{finding.level:<5} {finding.subject}: {finding.text}")
        lines += [f"        {line}" for line in finding.command.splitlines()]
    counts = ", ".join(f"{sum(f.level is level for f in findings)} {level}" for level in order)
    return "\n".join([*lines, "", counts])
