"""Executes DDL: creates, clones and drops tables, and restores deleted datasets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from bigquery_standin.bigquery_errors import Duplicate, Invalid, InvalidQuery, NotFound, NotImplementedConstruct
from bigquery_standin.clock import HOUR_US
from bigquery_standin.jobs.destination_table import NewSegments, write_change
from bigquery_standin.jobs.query_statements import conform_query_rows
from bigquery_standin.jobs.scanned_bytes import NOTHING_SCANNED
from bigquery_standin.jobs.statement_run import Outcome, StatementRun
from bigquery_standin.jobs.table_alterations import with_options
from bigquery_standin.sql.ddl_options import evaluate_options
from bigquery_standin.sql.field_types import TableField
from bigquery_standin.sql.statements import CreateClone, CreateTable, DropTable, UndropSchema
from bigquery_standin.storage.access import check_all_rows, check_columns
from bigquery_standin.storage.arrow_schema import arrow_schema
from bigquery_standin.storage.catalog import Catalog
from bigquery_standin.storage.change_log import check_fresh_enough_to_clone, stale_source_error
from bigquery_standin.storage.model import (
    CloneDefinition,
    DatasetId,
    Partition,
    TableId,
    TableSettings,
    TableVersion,
)
from bigquery_standin.storage.table_change import Change
from bigquery_standin.storage.table_rules import check_clone, check_replacement, check_settings


def create_table(statement: CreateTable, run: StatementRun) -> Outcome:
    """Creates a table, which may get the rows of a query, or a view."""
    table, kind = run.target(statement.name), _creation_kind(statement)
    operation = _operation(statement, table, run)
    if operation == "SKIP":
        return run.outcome(kind, ddl_operation=operation, ddl_table=table)
    columns, rows, scanned = statement.columns or (), None, NOTHING_SCANNED
    if statement.view is not None and statement.query is not None:
        columns = run.columns(run.evaluator.without_views(statement.query))
    elif statement.query is not None:
        scanned = run.scan(statement.query)
        columns, rows = _query_result(statement, run)
    settings = _settings(statement, table, columns, run)

    def build(segments: NewSegments, latest: TableVersion | None, commit_us: int) -> Change:
        _refuse_existing(statement, table, latest)
        change = write_change("create", settings, None, segments, "WRITE_EMPTY", None, commit_us)
        return _create_change(table, latest, settings, dict(change.partitions))

    shown = () if rows is None else columns
    outcome = run.outcome(kind, scanned, ddl_operation=operation, ddl_table=table, columns=shown)
    new_rows = arrow_schema(()).empty_table() if rows is None else conform_query_rows(rows, settings.schema)
    return _unless_made_meanwhile(
        statement, outcome, lambda: run.commit_rows(table, new_rows, settings, build, outcome)
    )


def _creation_kind(statement: CreateTable) -> str:
    """The job's statement type."""
    if statement.view is not None:
        return "CREATE_VIEW"
    return "CREATE_TABLE" if statement.query is None else "CREATE_TABLE_AS_SELECT"


def _query_result(statement: CreateTable, run: StatementRun) -> tuple[tuple[TableField, ...], pa.Table]:
    """The new table's columns, and the rows of the statement's query; no rows in a dry run."""
    assert statement.query is not None  # the caller has seen it
    columns = statement.columns
    if run.is_dry:
        if columns is not None:
            run.evaluator.assignable_sql(statement.query, columns)
        columns = columns or run.columns(statement.query)
        return columns, arrow_schema(columns).empty_table()
    if columns is not None:
        return columns, run.evaluator.query_as(statement.query, columns)
    return run.evaluator.query(statement.query)


def _settings(
    statement: CreateTable, table: TableId, columns: tuple[TableField, ...], run: StatementRun
) -> TableSettings:
    """The settings of a new table. Raises InvalidQuery for columns, a layout or options that do not fit together."""
    settings = TableSettings(
        schema=columns,
        partition_column=statement.partition_by,
        by_month=statement.by_month,
        clustering=statement.cluster_by,
        primary_key=statement.primary_key,
        view=statement.view,
    )
    settings = with_options(settings, evaluate_options(statement.options, "table", run.evaluator.python_value))
    settings = settings.in_schema_spelling()
    try:
        check_settings(table, settings)
    except Invalid as error:
        raise InvalidQuery(error.message) from error
    return settings


def _create_change(
    table: TableId, current: TableVersion | None, settings: TableSettings, partitions: dict[str, Partition]
) -> Change:
    if current is not None:
        if (current.settings.view is None) != (settings.view is None):
            raise Invalid(f"{table} is a {'table' if current.settings.view is None else 'view'}: drop it first.")
        check_replacement(table, current.settings, settings)
    return Change("create", settings, partitions, recreates=True, modified_partitions=len(partitions))


def clone_table(statement: CreateClone, run: StatementRun) -> Outcome:
    table = run.target(statement.name)
    operation = _operation(statement, table, run)
    source, source_version = _clone_source(statement, run)
    outcome = run.outcome("CREATE_TABLE", ddl_operation=operation, ddl_table=table)
    if operation == "SKIP":
        return outcome
    options = evaluate_options(statement.options, "table", run.evaluator.python_value)
    moment_us = None if statement.system_time is None else run.evaluator.reader.moment_us(statement.system_time)

    def build(current: TableVersion | None, commit_us: int) -> Change:
        _refuse_existing(statement, table, current)
        clone_us = commit_us if moment_us is None else moment_us
        return _clone_change(run.catalog, table, current, source, source_version, options, clone_us, commit_us)

    run.check_cancelled()
    return _unless_made_meanwhile(statement, outcome, lambda: run.commit(table, build, outcome))


def _clone_source(statement: CreateClone, run: StatementRun) -> tuple[TableId, TableVersion]:
    """The table to clone, and the version of it.

    Raises AccessDenied unless the caller may read all its rows and columns, as for a copy, and Invalid if its rows are
    staler than its max_staleness allows.
    """
    catalog, caller = run.catalog, run.state.caller
    source, version = run.evaluator.reader.version(statement.source, statement.system_time)
    if run.evaluator.reader.merges_changes(source, version):  # the version lacks changes that a query would add
        raise stale_source_error(source)
    check_fresh_enough_to_clone(source, catalog.get(source), catalog.clock.now_us())
    check_all_rows(caller, catalog, source, version, "CLONE")
    check_columns(caller, source, version)
    return source, version


def _clone_change(
    catalog: Catalog,
    table: TableId,
    current: TableVersion | None,
    source: TableId,
    source_version: TableVersion,
    options: Mapping[str, Any],
    clone_us: int,
    commit_us: int,
) -> Change:
    """The change that makes the clone, with its source's rows, schema, row access policies, primary key and layout.

    Here a clone has none of its source's options. BigQuery does not document whether it copies the partition
    expiration, so callers can rely only on what they write in OPTIONS. `current`: the table that the clone replaces, or
    None. `clone_us`: the time as of which the source is cloned.
    """
    cloned = source_version.settings
    settings = TableSettings(
        cloned.schema,
        cloned.partition_column,
        cloned.by_month,
        clustering=cloned.clustering,
        row_policies=cloned.row_policies,
        primary_key=cloned.primary_key,
        has_altered_types=cloned.has_altered_types,
    )
    settings = with_options(settings, options)
    check_settings(table, settings)
    check_clone(catalog, table, source, source_version.clone)
    if current is not None:
        check_replacement(table, current.settings, settings)
    partitions = {key: Partition(old.segments, commit_us) for key, old in source_version.partitions.items()}
    clone = CloneDefinition(source, clone_us)
    return Change("clone", settings, partitions, clone, recreates=True, modified_partitions=len(partitions))


def create_operation(exists: bool, or_replace: bool, if_not_exists: bool, object_name: str) -> str:
    """What a CREATE statement does: CREATE, REPLACE or SKIP.

    Raises Duplicate if the object exists and the statement may neither replace nor skip it. `object_name`: the object
    in that error, with its kind.
    """
    if not exists:
        return "CREATE"
    if or_replace:
        return "REPLACE"
    if if_not_exists:
        return "SKIP"
    raise Duplicate(f"Already Exists: {object_name}")


def _operation(statement: CreateTable | CreateClone, table: TableId, run: StatementRun) -> str:
    exists = run.catalog.find(table) is not None
    return create_operation(exists, statement.replace, statement.if_not_exists, f"Table {table}")


def _refuse_existing(statement: CreateTable | CreateClone, table: TableId, current: TableVersion | None) -> None:
    """Raises Duplicate if another job has created the table meanwhile, unless the statement may replace it."""
    if current is not None and not statement.replace:
        raise Duplicate(f"Already Exists: Table {table}")


def _unless_made_meanwhile(
    statement: CreateTable | CreateClone, outcome: Outcome, commit: Callable[[], Outcome]
) -> Outcome:
    """Commits a new or replaced table. With IF NOT EXISTS it does nothing if another job has created it meanwhile."""
    try:
        return commit()
    except Duplicate:
        if not statement.if_not_exists:
            raise
        return replace(outcome, ddl_operation="SKIP")


def drop_table(statement: DropTable, run: StatementRun) -> Outcome:
    table = run.target(statement.name)
    if statement.if_exists and run.catalog.find(table) is None:
        return run.outcome("DROP_TABLE", ddl_operation="SKIP", ddl_table=table)
    outcome = run.outcome("DROP_TABLE", ddl_operation="DROP", ddl_table=table)
    if run.commit_info_of is not None:
        run.catalog.drop(table, run.commit_info_of(outcome))
    return outcome


def undrop_schema(statement: UndropSchema, run: StatementRun) -> Outcome:
    """Restores a dataset in the location that the statement's options name, by default in that of the job."""
    dataset = DatasetId(statement.project or run.state.defaults.project, statement.name)
    if run.catalog.datasets.find(dataset) is not None:
        raise Duplicate(f"Already Exists: Dataset {dataset}")
    location = evaluate_options(statement.options, "schema", run.evaluator.python_value).get("location")
    _restore_dataset(run.catalog, dataset, location or run.state.defaults.location, is_dry=run.is_dry)
    return run.outcome("UNDROP_SCHEMA", ddl_operation="CREATE")


def _restore_dataset(catalog: Catalog, dataset_id: DatasetId, location: str, *, is_dry: bool) -> None:
    """Restores the dataset with the tables that it had when it was deleted.

    Raises NotFound if no such dataset was deleted in this location within its time travel window, and
    NotImplementedConstruct if it had procedures.
    """
    deleted = catalog.datasets.find_deleted(dataset_id)
    if deleted is None or deleted.deleted_us is None or deleted.location.lower() != location.lower():
        raise NotFound(f"Not found: no deleted dataset {dataset_id} in location {location}")
    if catalog.clock.now_us() - deleted.deleted_us > deleted.max_time_travel_hours * HOUR_US:
        raise NotFound(f"Not found: dataset {dataset_id} was deleted before its time travel window")
    if deleted.deleted_with_routines:
        raise NotImplementedConstruct("UNDROP SCHEMA of a dataset that had procedures")
    if is_dry:
        return
    # The tables are restored first: nobody sees them before their dataset exists. If this process is killed in between,
    # the next start of the stand-in drops the tables again.
    for table_id, _ in catalog.histories():
        if table_id.dataset_id == dataset_id:
            catalog.undrop(table_id, deleted.deleted_us)
    catalog.datasets.restore(deleted)
