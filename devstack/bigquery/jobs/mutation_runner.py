"""Carries out UPDATE, DELETE, MERGE and TRUNCATE TABLE: read one snapshot, count the bytes, commit, or try again."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from devstack.bigquery.errors import InvalidQuery
from devstack.bigquery.jobs.dml_reading import Mutation, deletes_whole_partitions, reading_of
from devstack.bigquery.jobs.mutation import Mutator
from devstack.bigquery.jobs.mutation_commit import (
    ConcurrentUpdate,
    mutated,
    rewrite,
    truncated,
    updated_partitions,
)
from devstack.bigquery.jobs.scanned_bytes import ScannedBytes, check_bytes_billed
from devstack.bigquery.jobs.script_state import ScriptState, StatementSql
from devstack.bigquery.jobs.statement_outcome import Mark, Outcome
from devstack.bigquery.jobs.table_reader import is_view
from devstack.bigquery.sql.statements import Delete, Merge, MergeInsert, TableName, TruncateTable, Update
from devstack.bigquery.storage.catalog import Change
from devstack.bigquery.storage.model import TableId, TableVersion

RETRIES = 3  # of a statement whose partitions another one changed (F23)
_KINDS: dict[type, str] = {Update: "UPDATE", Delete: "DELETE", Merge: "MERGE"}


@dataclass(frozen=True)
class MutationRunner:
    state: ScriptState
    check_cancelled: Callable[[], None]
    maximum_bytes_billed: int | None

    def run(self, statement: Mutation | TruncateTable, mark: Mark, started: float) -> Outcome:
        if isinstance(statement, TruncateTable):
            return self._truncate(statement, mark)
        for _ in range(RETRIES):
            try:
                return self._attempt(statement, mark, started)
            except ConcurrentUpdate:
                self.check_cancelled()
        return self._attempt(statement, mark, started)

    def _truncate(self, statement: TruncateTable, mark: Mark) -> Outcome:
        """Free, and no row is read."""
        with self.state.reading() as sql:
            table, version = target_of(statement.table, sql)
        outcome = Outcome("TRUNCATE_TABLE", tables=(table,), changed_rows={"deleted": version.rows})
        self.check_cancelled()
        self.state.catalog.commit(table, lambda now, _: truncated(table, now), mark(outcome))
        return outcome

    def _attempt(self, statement: Mutation, mark: Mark, started: float) -> Outcome:
        catalog, session = self.state.catalog, self.state.session
        with self.state.reading() as sql:
            table, version = target_of(statement.table, sql)
            scanned = read_bytes(statement, version, sql)
            check_bytes_billed(scanned, self.maximum_bytes_billed)
            changes = Mutator(statement, sql, table, version).changes()
            updated = updated_partitions(version, changes, session)
            if scanned.processed or not isinstance(statement, Delete):
                scanned = scanned.and_more(table, sum(version.partitions[key].bytes for key in updated))
            check_bytes_billed(scanned, self.maximum_bytes_billed)
            self.check_cancelled()
            slot_ms = max(1, int((time.perf_counter() - started) * 1000))
            outcome = Outcome(
                _KINDS[type(statement)],
                scanned.processed,
                scanned.billed,
                slot_ms,
                tuple(sql.reader.tables),
                changed_rows=changes.counts,
            )
            if not any(changes.counts.values()):
                return outcome
            with catalog.segments.batch() as batch:
                change = rewrite(table, version, changes, updated, session, catalog, batch)
                self.check_cancelled()
                kind = outcome.statement_type.lower()

                def build(now: TableVersion | None, commit_us: int) -> Change:
                    return mutated(kind, catalog, table, version, now, change, commit_us)

                catalog.commit(table, build, mark(outcome))
            return outcome


def target_of(name: TableName, sql: StatementSql) -> tuple[TableId, TableVersion]:
    """The table that a statement changes, at the statement's snapshot."""
    if sql.reader.external(name) is not None:
        raise InvalidQuery(f"Table {name.table} is an external table: DML cannot change it")
    if is_view(name):
        raise InvalidQuery(f"{name.table} is a view: DML cannot change it")
    return sql.reader.version(name, None)


def read_bytes(statement: Mutation, version: TableVersion, sql: StatementSql) -> ScannedBytes:
    """What is scanned, without the partitions that an update rewrites. A DELETE of whole partitions reads nothing.

    Source: "Estimate and control costs", DML; "Using DML with partitioned tables".
    """
    scanned = sql.measure(reading_of(statement))
    if isinstance(statement, Delete) and deletes_whole_partitions(
        statement, version.settings.partition_column, sql.state.variables
    ):
        return ScannedBytes({table: 0 for table in scanned.sizes}, 0)
    return scanned


def most_bytes(statement: Mutation, sql: StatementSql) -> ScannedBytes:
    """Of a dry run: as if every partition that is read were updated."""
    table, version = target_of(statement.table, sql)
    scanned = read_bytes(statement, version, sql)
    only_inserts = isinstance(statement, Merge) and all(isinstance(c.action, MergeInsert) for c in statement.clauses)
    if only_inserts or (isinstance(statement, Delete) and not scanned.processed):
        return scanned
    return scanned.and_more(table, scanned.partition_sizes.get(table, 0))
