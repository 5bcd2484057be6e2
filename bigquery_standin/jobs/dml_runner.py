"""Executes UPDATE, DELETE, MERGE and TRUNCATE TABLE."""

from __future__ import annotations

from sqlglot import exp

from bigquery_standin.bigquery_errors import InvalidQuery
from bigquery_standin.jobs.dml_changes import check_names_and_types, read_query_of, row_changes
from bigquery_standin.jobs.dml_commit import affected_partitions, dml_change, truncate_change, write_partitions
from bigquery_standin.jobs.scanned_bytes import check_bytes_billed
from bigquery_standin.jobs.statement_run import Outcome, StatementRun
from bigquery_standin.sql.statements import Mutation, target_of
from bigquery_standin.storage.model import TableId, TableVersion
from bigquery_standin.storage.table_history import Change


def truncate_table(tree: exp.TruncateTable, run: StatementRun) -> Outcome:
    """Reads no row and bills nothing."""
    table, version = _mutable_version(tree, run)
    outcome = run.outcome("TRUNCATE_TABLE", changed_rows={"deleted": version.rows})
    run.state.check_cancelled()
    return run.commit(table, lambda latest, _: truncate_change(table, latest), outcome)


def change_rows(tree: Mutation, run: StatementRun) -> Outcome:
    """Executes UPDATE, DELETE or MERGE. Raises ConcurrentUpdate if another statement changes the same partitions."""
    catalog, session, evaluator = run.catalog, run.state.session, run.evaluator
    table, version = _mutable_version(tree, run)
    kind = tree.key.upper()
    scanned = run.scan(read_query_of(tree))
    if run.is_dry:
        check_names_and_types(tree, evaluator, table, version)
        # It is known only after execution which partitions are rewritten: those that are read, at most.
        return run.outcome(kind, scanned.plus(table, scanned.partition_sizes.get(table, 0)))
    changes = row_changes(tree, evaluator, table, version)
    affected = affected_partitions(table, version, changes, session)
    scanned = scanned.plus(table, sum(version.partitions[key].bytes for key in affected))
    check_bytes_billed(scanned, run.state.maximum_bytes_billed)
    run.state.check_cancelled()
    outcome = run.outcome(kind, scanned, changed_rows=changes.counts)
    if not any(changes.counts.values()):
        return outcome
    with catalog.segments.batch() as batch:
        writes = write_partitions(table, version, changes, affected, session, catalog, batch)
        run.state.check_cancelled()

        def build(latest: TableVersion | None, commit_us: int) -> Change:
            return dml_change(table, version, latest, writes, commit_us)

        return run.commit(table, build, outcome)


def _mutable_version(tree: Mutation | exp.TruncateTable, run: StatementRun) -> tuple[TableId, TableVersion]:
    """As `StatementRun.dml_target`, for a statement that may change existing rows.

    Raises InvalidQuery also if the table has pending row changes.
    """
    table, version = run.dml_target(target_of(tree))
    if version.pending_changes:
        raise InvalidQuery(
            f"UPDATE, DELETE, MERGE and TRUNCATE TABLE statements are not supported over table {table}, which is "
            "active with change data capture: wait until the streamed changes are applied"
        )
    return table, version
