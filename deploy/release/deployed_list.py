"""The list of the objects that releases have uploaded.

A release deletes only objects on this list. Without `--take-over` it also replaces only these.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from dedup_clone.state.store import ObjectStore

LIST_NAME = "dedup-clone/deployed.json"  # in the environment's bucket, outside the folders that Airflow synchronises


@dataclass(frozen=True)
class Deployed:
    """What releases have uploaded. `objects`: the URIs of the last release's objects.

    `retired`: the URIs of the former Spark code, which running jobs may still read.
    """

    objects: frozenset[str] = field(default=frozenset())
    retired: frozenset[str] = field(default=frozenset())

    @property
    def all_objects(self) -> frozenset[str]:
        return self.objects | self.retired


class DeployedList:
    """Reads the list in the environment's bucket, and replaces it only if it has not changed since it was read."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._object_generation = 0

    def read(self) -> Deployed:
        """The list, empty before the first release."""
        stored = self._store.read(LIST_NAME)
        if stored is None:
            self._object_generation = 0
            return Deployed()
        self._object_generation = stored.object_generation
        record = json.loads(stored.text)
        return Deployed(frozenset(record["objects"]), frozenset(record["retired"]))

    def write(self, deployed: Deployed) -> None:
        """Replace the list. Raises LostRace when another release wrote it meanwhile."""
        record = {"objects": sorted(deployed.objects), "retired": sorted(deployed.retired)}
        text = json.dumps(record, indent=1) + "\n"
        self._object_generation = self._store.replace(
            LIST_NAME, text, expected_object_generation=self._object_generation
        )
