"""Serves the page with generated indexes and everybody let in: for tests, and to look at it:
`PYTHONPATH=plugins:. .venv/bin/python -m tests.page.serving 8099`."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any

from dedup_clone.contract.records import to_json
from dedup_clone.page.application import create_application
from dedup_clone.page.reading import Indexes
from dedup_clone.page.rights import Rights
from dedup_clone.state.store import StoredText
from tests.unit.page import indexes


class MemoryStore:
    """A state bucket in memory that counts what is asked of it."""

    bucket = "state"

    def __init__(self, *kept: Any) -> None:
        self.texts = {f"{index.feed}/index.json": StoredText(to_json(index), 1) for index in kept}
        self.reads: list[str] = []
        self.listings = 0

    def uri(self, name: str) -> str:
        return f"gs://state/{name}"

    def folders(self, prefix: str) -> list[str]:
        self.listings += 1
        return sorted({f"{name.split('/')[0]}/" for name in self.texts} | {"_status/"})

    def read_if_changed(self, name: str, known_generation: int) -> StoredText | None:
        from google.api_core.exceptions import NotFound

        self.reads.append(name)
        if name not in self.texts:
            raise NotFound(name)
        stored = self.texts[name]
        return None if stored.generation == known_generation else stored


def let_in() -> None:
    """Nobody is refused."""


def application(store: MemoryStore, *, may_trigger: bool = True, now: Any = None, **options: Any) -> Any:
    def rights() -> Rights:
        return Rights(lambda dag_id: True, lambda dag_id: may_trigger)

    return create_application(Indexes(lambda: store, **options), let_in, rights, now or (lambda: datetime.now(UTC)))


def site(now: datetime) -> Any:
    """All that the page can look like: full (fresh, late, empty), after one publish, to a viewer, before any feed."""
    from fastapi import FastAPI

    shown = FastAPI()
    full = MemoryStore(indexes.fresh(now), indexes.late(now), indexes.empty(now))
    shown.mount("/dedup-clone", application(full))
    shown.mount("/viewer", application(full, may_trigger=False))
    shown.mount("/first", application(MemoryStore(indexes.make_index(1, 1, now=now))))
    shown.mount("/nothing", application(MemoryStore()))
    return shown


if __name__ == "__main__":
    import uvicorn

    uvicorn.run(site(datetime.now(UTC)), host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
