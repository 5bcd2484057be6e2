"""Begins an attempt: acquires the lease, and makes the attempt's record from the feed file."""

from __future__ import annotations

from typing import Protocol

import dedup_clone
from dedup_clone.contract.attempt import Attempt
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.kind import Kind
from dedup_clone.publish.services import Services


class Form(Protocol):
    """What the forms of all operations have: which run was triggered with it."""

    @property
    def dag_id(self) -> str: ...

    @property
    def run_id(self) -> str: ...


def begin_attempt(
    services: Services,
    form: Form,
    kind: Kind,
    parent: int | None,
    *,
    reason: str,
    engine: Engine = Engine.SPARK,
    snapshot_id: int = 0,
) -> Attempt:
    """Acquire the lease and return the new attempt, as far as feed file and lease say what it does.

    The caller adds what only this kind of attempt has, and writes the record.
    """
    feed, layout, store = services.feed, services.layout, services.store
    intent = services.current.acquire_lease(
        services.environment, parent, kind, dag_id=form.dag_id, run_id=form.run_id, now=services.now()
    )
    oldest, latest = services.retention_window()  # fixed for the whole run, which may last past midnight
    finds_changes = engine is Engine.CDC or (feed.changes and engine is Engine.SPARK)
    return Attempt(
        id=intent.attempt,
        feed=feed.feed,
        kind=kind,
        generation=intent.generation,
        parent=parent,
        dag_id=form.dag_id,
        run_id=form.run_id,
        reason=reason,
        snapshot_id=snapshot_id,
        taken_at=intent.taken_at,
        code_version=dedup_clone.__version__,
        engine=engine,
        table=feed.table.to_contract(),
        update_id_mode=feed.update_id_mode,
        date_folders=feed.landing.date_folders,
        plan=feed.dedup.plan,
        retention_day=oldest,
        latest_day=latest,
        arrivals_uri=store.uri(layout.arrivals),
        folder_uri=store.uri(layout.attempt_folder(intent.attempt)),
        data_uri=store.uri(layout.data_folder(intent.attempt)),
        seed_uri=store.uri(layout.fingerprint_seed),
        exact=feed.dedup.exact,
        compare_values=feed.dedup.compare_values,
        file_bytes=feed.dedup.file_megabytes << 20,
        since=feed.table.since(),
        form=feed.form,
        changes_uri=store.uri(layout.changes_folder(intent.attempt)) if finds_changes else "",
    )
