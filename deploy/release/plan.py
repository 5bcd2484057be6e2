"""Compares a release with what lies in the buckets: what is to be created, replaced and deleted. Touches nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from deploy.release.content import Item, Print
from deploy.release.deployed import Deployed
from deploy.settings import SPARK_CODE_PREFIX


class Action(StrEnum):
    CREATE = "create"
    REPLACE = "replace"
    DELETE = "delete"


@dataclass(frozen=True)
class Change:
    """`item` is None for a deletion."""

    action: Action
    uri: str
    item: Item | None


@dataclass(frozen=True)
class Plan:
    """`foreign`: objects in the way that differ from ours and that no release has laid there."""

    changes: tuple[Change, ...]
    unchanged: int
    foreign: tuple[str, ...]
    after: Deployed

    def of(self, *actions: Action) -> tuple[Change, ...]:
        return tuple(change for change in self.changes if change.action in actions)


def make_plan(items: Iterable[Item], found: Mapping[str, Print], deployed: Deployed) -> Plan:
    """`found`: address and content print of every object below the prefixes that a release writes to."""
    wanted = {item.uri: item for item in items}
    changes, foreign, unchanged = [], [], 0
    for uri, item in wanted.items():
        if uri not in found:
            changes.append(Change(Action.CREATE, uri, item))
        elif found[uri] == item.print:
            unchanged += 1
        else:
            changes.append(Change(Action.REPLACE, uri, item))
            if uri not in deployed.ours:
                foreign.append(uri)
    retired = _retired(frozenset(wanted), deployed)
    superfluous = deployed.ours - frozenset(wanted) - retired
    changes += [Change(Action.DELETE, uri, None) for uri in sorted(superfluous & frozenset(found))]
    return Plan(tuple(changes), unchanged, tuple(foreign), Deployed(frozenset(wanted), retired))


def _retired(wanted: frozenset[str], deployed: Deployed) -> frozenset[str]:
    """Spark code stays for one more release that changes it: a run that was started with it may still ask for it."""
    newly = frozenset(uri for uri in deployed.objects - wanted if f"/{SPARK_CODE_PREFIX}" in uri)
    return newly or deployed.retired - wanted


def as_text(plan: Plan, *, limit: int = 40) -> str:
    """The plan as a person reads it: every object that changes (the first `limit` of a kind), and counts."""
    lines = []
    for action in Action:
        changes = plan.of(action)
        lines += [_line(change) for change in changes[:limit]]
        if len(changes) > limit:
            lines.append(f"  {action:<8} … and {len(changes) - limit} more")
    lines += [f"  in the way, not laid by a release: {uri}" for uri in plan.foreign]
    counts = ", ".join(f"{len(plan.of(action))} to {action}" for action in Action)
    return "\n".join([*lines, f"{counts}, {plan.unchanged} unchanged."])


def _line(change: Change) -> str:
    if change.item is None:
        return f"  {change.action:<8} {change.uri}"
    return f"  {change.action:<8} {change.item.part:<8} {change.item.print.crc32c:<9} {change.uri}"
