"""Holds what the statements of one script share, such as variables and the query parameters of a request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from bigquery_standin.bigquery_errors import Invalid, InvalidQuery, NotFound, NotImplementedConstruct, StandInError
from bigquery_standin.jobs.duckdb_session import DuckDbSession
from bigquery_standin.jobs.job_store import JobRecord, JobStore
from bigquery_standin.jobs.parquet_rows import ExternalTables
from bigquery_standin.sql.field_types import QueryValue, TableField
from bigquery_standin.sql.scalar_types import SCALARS, canonical_type
from bigquery_standin.sql.script_parser import parse_shared_script
from bigquery_standin.sql.statements import DmlStatement, target_of
from bigquery_standin.sql.transpile import to_duckdb
from bigquery_standin.sql.type_parser import TableName
from bigquery_standin.storage.access import Caller
from bigquery_standin.storage.catalog import Catalog
from bigquery_standin.storage.model import DatasetId, TableId


@dataclass
class ScriptState:
    """The state of one script: its variables, and what all its statements share.

    `record`: that of the script's job. `jobs`: for INFORMATION_SCHEMA.JOBS. `variables`: by lower-case name.
    """

    catalog: Catalog
    session: DuckDbSession
    caller: Caller
    record: JobRecord
    parameters: Parameters
    jobs: JobStore
    externals: ExternalTables
    check_cancelled: Callable[[], None] = lambda: None
    variables: dict[str, QueryValue] = field(default_factory=dict)

    @property
    def maximum_bytes_billed(self) -> int | None:
        """Of each statement; None for no limit."""
        return int(self.record.configuration["query"].get("maximumBytesBilled") or 0) or None

    def check_location(self, dataset: DatasetId) -> None:
        """Raises NotFound unless the dataset exists and is in the job's location."""
        existing = self.catalog.datasets.find(dataset)
        if existing is None or existing.location != self.record.location:
            raise NotFound(f"Not found: Dataset {dataset} was not found in location {self.record.location}")

    def constant_value(self, expression: exp.Expression) -> Any:
        """The value of an expression that reads no table, such as the one in FOR SYSTEM_TIME AS OF."""

        def refuse(name: TableName, _: exp.Expression | None) -> str:
            raise InvalidQuery(f"Table [{name.table}] cannot be read inside a constant expression")

        sql = to_duckdb(exp.select(expression), refuse, self.parameters, self.variables, now=self.catalog.clock.now())
        _, rows = self.session.run(sql)
        return rows.column(0)[0].as_py()


def dml_statement(record: JobRecord) -> tuple[DmlStatement, TableId] | None:
    """The statement and its table, if the job runs nothing but one INSERT, UPDATE, DELETE or MERGE; otherwise None."""
    if record.kind != "query":
        return None
    try:
        statements = parse_shared_script(record.configuration["query"]["query"]).statements
        if len(statements) == 1 and isinstance(statements[0], DmlStatement):
            return statements[0], record.table(target_of(statements[0]))
    except StandInError:
        return None  # the job will fail with this error when it runs
    return None


Parameters = dict[str, QueryValue]


def parse_parameters(items: Sequence[Mapping[str, Any]], mode: str | None) -> Parameters:
    """The values by lower-case name. `mode`: the request's `parameterMode`.

    Raises Invalid for wrong parameters and for parameters without a mode, NotImplementedConstruct for a type or value
    that is not supported. BigQuery's page "Run parameterized queries" says to set `parameterMode`. It does not say what
    happens without it.
    """
    if mode == "POSITIONAL":
        raise NotImplementedConstruct("positional query parameters")
    if mode != "NAMED" and (items or mode):
        raise Invalid(f"Value of parameterMode is [{mode}], expected [NAMED] or [POSITIONAL].")
    parameters: Parameters = {}
    for position, item in enumerate(items, start=1):
        name = str(item.get("name") or "").lower()
        if not name or name in parameters:
            raise Invalid(f"Query parameter [{position}] has name [{name}]: name each one once.")
        parameters[name] = _value(name, item.get("parameterType") or {}, item.get("parameterValue") or {})
    return parameters


def _value(name: str, kind: Mapping[str, Any], value: Mapping[str, Any]) -> QueryValue:
    is_array = kind.get("type") == "ARRAY"
    type_name = str((kind.get("arrayType") or {} if is_array else kind).get("type", ""))
    if not type_name:
        raise Invalid(f"Query parameter [{name}] lacks parameterType.type, or the type of its elements.")
    if type_name in ("ARRAY", "STRUCT", "RECORD", "RANGE"):
        raise NotImplementedConstruct(f"query parameter of type {'ARRAY of ' if is_array else ''}{type_name}")
    column = TableField("", canonical_type(type_name), "REPEATED" if is_array else "NULLABLE")
    values = [_scalar(name, column.type, one) for one in (value.get("arrayValues") or () if is_array else [value])]
    return QueryValue(column, values if is_array else values[0])


def _scalar(name: str, type_name: str, value: Mapping[str, Any]) -> Any:
    text = value.get("value")
    try:
        return None if text is None else SCALARS[type_name].parse(str(text))
    except (ValueError, ArithmeticError) as error:
        raise Invalid(f"Invalid value for query parameter [{name}]: [{text}] is no {type_name}.") from error
