"""Executes UPDATE, DELETE, MERGE and TRUNCATE TABLE, and runs a statement again after a concurrent update."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from bigquery_standin.bigquery_errors import InvalidQuery
from bigquery_standin.jobs.dml_changes import row_changes
from bigquery_standin.jobs.dml_commit import (
    ConcurrentUpdate,
    affected_segments,
    dml_change,
    truncate_change,
    write_partitions,
)
from bigquery_standin.jobs.dml_read_query import deletes_whole_partitions, read_query_of
from bigquery_standin.jobs.scanned_bytes import ScannedBytes, check_bytes_billed
from bigquery_standin.jobs.script_state import ScriptState, SqlEvaluator
from bigquery_standin.jobs.statement_outcome import CommitInfoOf, Outcome
from bigquery_standin.jobs.table_reader import is_information_schema_view
from bigquery_standin.sql.statements import (
    Delete,
    Merge,
    MergeInsert,
    MutatingStatement,
    TableName,
    TruncateTable,
    Update,
)
from bigquery_standin.storage.change_log import check_no_pending_changes
from bigquery_standin.storage.model import TableId, TableVersion
from bigquery_standin.storage.protection import check_all_rows
from bigquery_standin.storage.table_change import Change

MAXIMUM_RETRIES = 3  # after another statement has changed the same partitions
_KINDS: dict[type, str] = {Update: "UPDATE", Delete: "DELETE", Merge: "MERGE"}


@dataclass(frozen=True)
class DmlRunner:
    """Executes UPDATE, DELETE, MERGE and TRUNCATE TABLE for one script. `maximum_bytes_billed`: None for no limit."""

    state: ScriptState
    check_cancelled: Callable[[], None]
    maximum_bytes_billed: int | None

    def run(
        self, statement: MutatingStatement | TruncateTable, commit_info_of: CommitInfoOf, started: float
    ) -> Outcome:
        """Executes the statement. `started`: the time.perf_counter() when it started.

        Raises ConcurrentUpdate if other statements keep changing the same partitions.
        """
        if isinstance(statement, TruncateTable):
            return self._truncate(statement, commit_info_of)
        for _ in range(MAXIMUM_RETRIES):
            try:
                return self._run_once(statement, commit_info_of, started)
            except ConcurrentUpdate:
                self.check_cancelled()
        return self._run_once(statement, commit_info_of, started)

    def _truncate(self, statement: TruncateTable, commit_info_of: CommitInfoOf) -> Outcome:
        """Reads no row and bills nothing."""
        with self.state.statement_evaluator() as evaluator:
            table, version = mutable_version(statement.table, evaluator)
        outcome = Outcome("TRUNCATE_TABLE", tables=(table,), changed_rows={"deleted": version.rows})
        self.check_cancelled()
        self.state.catalog.commit(table, lambda latest, _: truncate_change(table, latest), commit_info_of(outcome))
        return outcome

    def _run_once(self, statement: MutatingStatement, commit_info_of: CommitInfoOf, started: float) -> Outcome:
        catalog, session = self.state.catalog, self.state.session
        with self.state.statement_evaluator() as evaluator:
            table, version = mutable_version(statement.table, evaluator)
            scanned = scanned_by(statement, version, evaluator)
            check_bytes_billed(scanned, self.maximum_bytes_billed)
            changes = row_changes(statement, evaluator, table, version)
            affected = affected_segments(version, changes, session)
            if not deletes_without_reading(statement, version, evaluator):
                scanned = scanned.plus(table, sum(version.partitions[key].bytes for key in affected.partitions))
            check_bytes_billed(scanned, self.maximum_bytes_billed)
            self.check_cancelled()
            slot_ms = max(1, int((time.perf_counter() - started) * 1000))
            outcome = Outcome(
                _KINDS[type(statement)],
                scanned.processed,
                scanned.billed,
                slot_ms,
                tuple(evaluator.reader.tables),
                changed_rows=changes.counts,
            )
            if not any(changes.counts.values()):
                return outcome
            with catalog.segments.batch() as batch:
                writes = write_partitions(table, version, changes, affected, session, catalog, batch)
                self.check_cancelled()
                kind = outcome.statement_type.lower()

                def build(latest: TableVersion | None, commit_us: int) -> Change:
                    return dml_change(kind, catalog, table, version, latest, writes, commit_us)

                catalog.commit(table, build, commit_info_of(outcome))
            return outcome


def mutable_version(name: TableName, evaluator: SqlEvaluator) -> tuple[TableId, TableVersion]:
    """As `target_version`, for a statement that may change existing rows.

    Raises InvalidQuery also if the table has pending row changes.
    """
    table, version = target_version(name, evaluator)
    check_no_pending_changes(table, version)
    return table, version


def target_version(name: TableName, evaluator: SqlEvaluator) -> tuple[TableId, TableVersion]:
    """The table that a DML statement changes, and the version of it that the statement reads.

    Raises NotFound if there is no such table, InvalidQuery for an external table or a view, and AccessDenied if the
    caller may not read all rows.
    """
    if evaluator.reader.external(name) is not None:
        raise InvalidQuery(f"Table {name.table} is an external table: DML cannot change it")
    if is_information_schema_view(name):
        raise InvalidQuery(f"{name.table} is a view: DML cannot change it")
    table, version = evaluator.reader.version(name, None)
    check_all_rows(evaluator.state.caller, evaluator.state.catalog, table, version, "DML")
    return table, version


def scanned_by(statement: MutatingStatement, version: TableVersion, evaluator: SqlEvaluator) -> ScannedBytes:
    """The bytes that the statement scans, without what is billed in addition for the partitions that it rewrites."""
    scanned = evaluator.scanned_bytes(read_query_of(statement))
    if deletes_without_reading(statement, version, evaluator):
        return ScannedBytes({table: 0 for table in scanned.sizes}, 0)
    return scanned


def deletes_without_reading(statement: MutatingStatement, version: TableVersion, evaluator: SqlEvaluator) -> bool:
    """Whether the statement is a DELETE of whole partitions, which reads and rewrites nothing.

    BigQuery says that this rule "might also not apply" to tables clustered by other columns; here it never applies to
    them. Source: "Update partitioned table data using DML", DELETE statement.
    """
    settings = version.settings
    return set(settings.clustering) <= {settings.partition_column} and deletes_whole_partitions(
        statement, settings.partition_column, evaluator.state.variables
    )


def maximum_scanned_bytes(statement: MutatingStatement, evaluator: SqlEvaluator) -> ScannedBytes:
    """An upper bound of the scanned bytes, for a dry run: every partition that is read counts as rewritten too.

    DELETEs of whole partitions and MERGEs that only insert rewrite no partition.
    """
    table, version = mutable_version(statement.table, evaluator)
    scanned = scanned_by(statement, version, evaluator)
    only_inserts = isinstance(statement, Merge) and all(isinstance(c.action, MergeInsert) for c in statement.clauses)
    if only_inserts or deletes_without_reading(statement, version, evaluator):
        return scanned
    return scanned.plus(table, scanned.partition_sizes.get(table, 0))
