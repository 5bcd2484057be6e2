"""Computes what a release must create, replace and delete in the buckets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from deploy.environment_settings import SPARK_CODE_PREFIX
from deploy.release.release_content import ContentChecksum, ReleaseObject


@dataclass(frozen=True)
class Deployed:
    """What releases have uploaded: a release deletes only these objects, and replaces others only if it is told to.

    `objects`: the URIs of the last release's objects. `retired`: those of the former Spark code, which running jobs
    may still read.
    """

    objects: frozenset[str] = field(default=frozenset())
    retired: frozenset[str] = field(default=frozenset())

    @property
    def all_objects(self) -> frozenset[str]:
        return self.objects | self.retired


class Action(StrEnum):
    CREATE = "create"
    REPLACE = "replace"
    DELETE = "delete"


@dataclass(frozen=True)
class Change:
    """The change of one object. `item`: its new content; None for a deletion."""

    action: Action
    uri: str
    item: ReleaseObject | None


@dataclass(frozen=True)
class Plan:
    """What a release changes.

    `unchanged`: the number of objects that stay as they are. `not_ours`: URIs of objects that the plan would replace
    although no release has uploaded them. `after`: the list of deployed objects once the plan is applied.
    """

    changes: tuple[Change, ...]
    unchanged: int
    not_ours: tuple[str, ...]
    after: Deployed

    def changes_of(self, *actions: Action) -> tuple[Change, ...]:
        return tuple(change for change in self.changes if change.action in actions)


def make_plan(items: Iterable[ReleaseObject], found: Mapping[str, ContentChecksum], deployed: Deployed) -> Plan:
    """Compare a release with the buckets.

    `found`: URI and checksum of every object below the prefixes that a release writes to. `deployed`: the objects that
    earlier releases have uploaded.
    """
    released = {item.uri: item for item in items}
    changes, not_ours, unchanged = [], [], 0
    for uri, item in released.items():
        if uri not in found:
            changes.append(Change(Action.CREATE, uri, item))
        elif found[uri] == item.checksum:
            unchanged += 1
        else:
            changes.append(Change(Action.REPLACE, uri, item))
            if uri not in deployed.all_objects:
                not_ours.append(uri)
    retired = _retired(frozenset(released), deployed)
    superfluous = deployed.all_objects - frozenset(released) - retired
    changes += [Change(Action.DELETE, uri, None) for uri in sorted(superfluous & frozenset(found))]
    return Plan(tuple(changes), unchanged, tuple(not_ours), Deployed(frozenset(released), retired))


def _retired(released: frozenset[str], deployed: Deployed) -> frozenset[str]:
    """URIs of former Spark code to keep, because running jobs may still read it.

    `released`: URIs of this release. If its Spark code, and with it the URIs, differ from the last release's, the last
    release's code is kept, and what was kept until now is deleted. Otherwise what was kept stays.
    """
    newly_retired = frozenset(uri for uri in deployed.objects - released if f"/{SPARK_CODE_PREFIX}" in uri)
    return newly_retired or deployed.retired - released


def plan_as_text(plan: Plan, *, limit: int = 40) -> str:
    """The plan for the user: every object that changes, at most `limit` for each action, and counts."""
    lines = []
    for action in Action:
        changes = plan.changes_of(action)
        lines += [_line(change) for change in changes[:limit]]
        if len(changes) > limit:
            lines.append(f"  {action:<8} … and {len(changes) - limit} more")
    lines += [f"  not uploaded by a release, would be replaced: {uri}" for uri in plan.not_ours]
    counts = ", ".join(f"{len(plan.changes_of(action))} to {action}" for action in Action)
    return "\n".join([*lines, f"{counts}, {plan.unchanged} unchanged."])


def _line(change: Change) -> str:
    if change.item is None:
        return f"  {change.action:<8} {change.uri}"
    return f"  {change.action:<8} {change.item.part:<8} {change.item.checksum.crc32c:<9} {change.uri}"
