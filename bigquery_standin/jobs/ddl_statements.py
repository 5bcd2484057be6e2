"""Executes DDL: clones and drops tables, and restores deleted datasets.

CREATE TABLE, which may read rows, is executed by `StatementRunner` (statement_runner.py) with the rules of this module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from bigquery_standin.bigquery_errors import Duplicate, Invalid, InvalidQuery, NotFound, NotImplementedConstruct
from bigquery_standin.clock import HOUR_US
from bigquery_standin.jobs.script_state import ScriptState, SqlEvaluator
from bigquery_standin.jobs.statement_outcome import CommitInfoOf, Outcome
from bigquery_standin.jobs.table_alterations import with_options, with_schema_spelling
from bigquery_standin.sql.ddl_options import evaluate_options
from bigquery_standin.sql.field_types import TableField
from bigquery_standin.sql.statements import (
    CreateClone,
    CreateTable,
    DropTable,
    UndropSchema,
)
from bigquery_standin.storage.arrow_schema import conform
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
from bigquery_standin.storage.protection import check_all_rows, check_columns
from bigquery_standin.storage.table_change import Change
from bigquery_standin.storage.table_rules import check_clone, check_replacement, check_settings


def clone_table(
    statement: CreateClone, evaluator: SqlEvaluator, commit_info_of: CommitInfoOf, check_cancelled: Callable[[], None]
) -> Outcome:
    catalog, table = evaluator.state.catalog, evaluator.state.target(statement.name)
    operation = table_operation(catalog.find(table), statement.replace, statement.if_not_exists, table)
    source, source_version = clone_source(statement, evaluator)
    outcome = Outcome("CREATE_TABLE", tables=(source,), ddl_operation=operation, ddl_table=table)
    if operation == "SKIP":
        return outcome
    options = evaluate_options(statement.options, "table", evaluator.python_value)
    moment_us = None if statement.system_time is None else evaluator.reader.moment_us(statement.system_time)

    def build(current: TableVersion | None, commit_us: int) -> Change:
        table_operation(current, statement.replace, False, table)  # raises if another job has created it meanwhile
        clone_us = commit_us if moment_us is None else moment_us
        return clone_change(catalog, table, current, source, source_version, options, clone_us, commit_us)

    check_cancelled()
    return commit_creation(catalog, table, build, commit_info_of, outcome, statement.if_not_exists)


def commit_creation(
    catalog: Catalog,
    table: TableId,
    build: Callable[[TableVersion | None, int], Change],
    commit_info_of: CommitInfoOf,
    outcome: Outcome,
    if_not_exists: bool,
) -> Outcome:
    """Commits a new or replaced table. With IF NOT EXISTS it does nothing if another job has created it meanwhile.

    `build`: returns the change from the table's current version (None without a table) and the commit time.
    """
    try:
        catalog.commit(table, build, commit_info_of(outcome))
    except Duplicate:
        if not if_not_exists:
            raise
        return replace(outcome, ddl_operation="SKIP")
    return outcome


def clone_source(statement: CreateClone, evaluator: SqlEvaluator) -> tuple[TableId, TableVersion]:
    """The table to clone, and the version of it.

    Raises AccessDenied unless the caller may read all its rows and columns, as for a copy, and Invalid if its rows are
    staler than its max_staleness allows.
    """
    source, version = evaluator.reader.version(statement.source, statement.system_time)
    if evaluator.reader.merges_changes(source, version):  # the version lacks streamed changes that a query would add
        raise stale_source_error(source)
    check_fresh_enough_to_clone(source, evaluator.state.catalog.get(source), evaluator.state.catalog.clock.now_us())
    check_all_rows(evaluator.state.caller, evaluator.state.catalog, source, version, "CLONE")
    check_columns(evaluator.state.caller, source, version)
    return source, version


def drop_table(statement: DropTable, state: ScriptState, commit_info_of: CommitInfoOf) -> Outcome:
    table = state.target(statement.name)
    if statement.if_exists and state.catalog.find(table) is None:
        return Outcome("DROP_TABLE", ddl_operation="SKIP", ddl_table=table)
    outcome = Outcome("DROP_TABLE", ddl_operation="DROP", ddl_table=table)
    state.catalog.drop(table, commit_info_of(outcome))
    return outcome


def undrop_schema(statement: UndropSchema, evaluator: SqlEvaluator) -> Outcome:
    """Restore a dataset in the location that the statement's options name, by default in that of the job."""
    catalog = evaluator.state.catalog
    dataset = DatasetId(statement.project or evaluator.state.defaults.project, statement.name)
    if catalog.datasets.find(dataset) is not None:
        raise Duplicate(f"Already Exists: Dataset {dataset}")
    location = evaluate_options(statement.options, "schema", evaluator.python_value).get("location")
    restore_dataset(catalog, dataset, location or evaluator.state.defaults.location)
    return Outcome("UNDROP_SCHEMA", ddl_operation="CREATE")


def table_operation(current: TableVersion | None, or_replace: bool, if_not_exists: bool, table: TableId) -> str:
    """`create_operation` for a table. `current`: its version now, None if it does not exist."""
    return create_operation(current is not None, or_replace, if_not_exists, f"Table {table}")


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


def creation_kind(statement: CreateTable) -> str:
    """The job's statement type."""
    if statement.view is not None:
        return "CREATE_VIEW"
    return "CREATE_TABLE" if statement.query is None else "CREATE_TABLE_AS_SELECT"


def create_settings(
    statement: CreateTable, query_columns: tuple[TableField, ...], evaluator: SqlEvaluator
) -> TableSettings:
    """The settings of a new table. Declared columns take precedence over those of the statement's query.

    Raises InvalidQuery for columns, a layout or options that do not fit together.
    """
    settings = TableSettings(
        schema=statement.columns or query_columns,
        partition_column=statement.partition_by,
        clustering=statement.cluster_by,
        primary_key=statement.primary_key,
        view=statement.view,
    )
    settings = with_options(settings, evaluate_options(statement.options, "table", evaluator.python_value))
    settings = with_schema_spelling(settings)
    try:
        check_settings(evaluator.state.defaults.table(statement.name), settings)
    except Invalid as error:
        raise InvalidQuery(error.message) from error
    return settings


def conform_query_rows(rows: pa.Table, schema: tuple[TableField, ...]) -> pa.Table:
    """A query's rows in a table's schema. Raises InvalidQuery for a NULL in a REQUIRED column or in an array."""
    try:
        conformed = conform(rows, schema)
    except Invalid as error:
        raise InvalidQuery(error.message) from error
    refuse_null_elements(schema, conformed)
    return conformed


def create_change(
    table: TableId, current: TableVersion | None, settings: TableSettings, partitions: dict[str, Partition]
) -> Change:
    if current is not None:
        if (current.settings.view is None) != (settings.view is None):
            raise Invalid(f"{table} is a {'table' if current.settings.view is None else 'view'}: drop it first.")
        check_replacement(table, current.settings, settings)
    return Change("create", settings, partitions, recreates=True, modified_partitions=len(partitions))


def clone_change(
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


def restore_dataset(catalog: Catalog, dataset_id: DatasetId, location: str) -> None:
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
    # The tables are restored first: nobody sees them before their dataset exists. If this process is killed in between,
    # the next start of the stand-in drops the tables again.
    for table_id, _ in catalog.histories():
        if table_id.dataset_id == dataset_id:
            catalog.undrop(table_id, deleted.deleted_us)
    catalog.datasets.restore(deleted)


def refuse_null_elements(columns: Sequence[TableField], rows: pa.Table) -> None:
    """Raises InvalidQuery for a NULL element in an array of the rows, in nested arrays too."""
    for column, values in zip(columns, rows.columns, strict=True):
        for chunk in values.chunks:
            _check(column, chunk)


def _check(column: TableField, values: pa.Array) -> None:
    if column.mode == "REPEATED":
        values = values.flatten()
        if values.null_count:
            raise InvalidQuery(f"Array cannot have a null element; error in writing field {column.name}")
    for number, child in enumerate(column.fields):
        _check(child, values.field(number))
