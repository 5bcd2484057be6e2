"""A rule of BigQuery or Cloud Storage that the product relies on: its test's mark, its verdict, and the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import pytest
from google.api_core.exceptions import Forbidden, RetryError, ServerError, TooManyRequests
from google.auth.exceptions import GoogleAuthError

# Errors that say nothing about the rule: a missing right or login, and a service that is unavailable or lacks a method.
NO_VERDICT = (pytest.skip.Exception, Forbidden, GoogleAuthError, OSError, RetryError, ServerError, TooManyRequests)
MAX_FOUND_LENGTH = 400  # characters


class Verdict(StrEnum):
    DID_NOT_HOLD = "did not hold"
    NOT_TRIED = "not tried"
    HELD = "held"


def rule(page: str, relies: str, instead: str, *, local: str = "") -> Any:
    """Mark a test of a rule that the probe also tries on a live project. The test's docstring states the rule.

    `page`: titles of pages of BigQuery's documentation. `relies`: the files that rely on the rule, separated by spaces.
    `instead`: what to set or do if it does not hold. `local`: why the local servers do not hold to it; the test must
    then fail with them.
    """
    return pytest.mark.probe(page=page, relies=relies, instead=instead, local=local)


@dataclass(frozen=True)
class Result:
    """What became of one rule. `found`: the message of a failed test, and what the test noted."""

    test: str
    rule: str
    page: str
    relies: str
    instead: str
    verdict: Verdict
    found: str

    @classmethod
    def of(cls, item: pytest.Item, error: BaseException | None, notes: Sequence[str]) -> Result:
        """The result of a marked test that ended with this error, or with None."""
        mark = item.get_closest_marker("probe")
        assert mark is not None
        stated = " ".join((getattr(item, "obj", item).__doc__ or "").split())
        messages = [f"{type(error).__name__}: {error}"] if error else []
        found = " ".join(" ".join([*messages, *notes]).split())[:MAX_FOUND_LENGTH]
        told = (mark.kwargs[name] for name in ("page", "relies", "instead"))
        return cls(item.name, stated, *told, verdict_of(error), found)


def verdict_of(error: BaseException | None) -> Verdict:
    """What the outcome of a test says about its rule."""
    if error is None:
        return Verdict.HELD
    return Verdict.NOT_TRIED if isinstance(error, NO_VERDICT) else Verdict.DID_NOT_HOLD


def as_markdown(results: Sequence[Result], server: str, billed: str) -> str:
    """The report, with the rules that did not hold first. `billed`: a sentence about costs."""
    counts = ", ".join(f"{sum(r.verdict is verdict for r in results)} {verdict}" for verdict in Verdict)
    lines = [f"# Probe of {server}", "", f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC. {len(results)} rules: {counts}."]
    lines += [billed] * bool(billed)
    for verdict in Verdict:
        found = [result for result in results if result.verdict is verdict]
        if found:
            titles = ("Rule", "Found", "Page", "What relies on it", "If it does not hold", "Test")
            lines += ["", f"## {verdict.capitalize()}", "", _row(titles), f"|{' --- |' * len(titles)}"]
            lines += [_row((r.rule, r.found, r.page, r.relies, r.instead, f"`{r.test}`")) for r in found]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
