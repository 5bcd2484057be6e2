"""Executes CREATE PROCEDURE, and binds the arguments of CALL.

Source: "Work with stored procedures for Apache Spark"; "Data definition language", CREATE PROCEDURE.
"""

from __future__ import annotations

import re

from sqlglot import exp

from bigquery_standin.bigquery_errors import AccessDenied, InvalidQuery, NotImplementedConstruct
from bigquery_standin.jobs.object_store import split_uri
from bigquery_standin.jobs.script_state import ScriptState
from bigquery_standin.jobs.sql_evaluator import SqlEvaluator, check_assignable
from bigquery_standin.jobs.statement_run import Outcome, StatementRun
from bigquery_standin.sql.ddl_options import evaluate_options
from bigquery_standin.sql.statements import Call, CreateProcedure
from bigquery_standin.sql.type_parser import TableName, field_of_type
from bigquery_standin.storage.access import DELEGATE_CONNECTION, USE_CONNECTION, Caller
from bigquery_standin.storage.model import Procedure, TableId

_RUNTIME_VERSION = re.compile(r"[0-9]+\.[0-9]+")
# BigQuery's page names only spark.yarn., as an example. Properties with the other prefixes would change where Spark
# runs, too, so they are refused here.
_REFUSED_PROPERTIES = ("spark.yarn.", "spark.master", "spark.submit.", "spark.kubernetes.")


def create_procedure(statement: CreateProcedure, run: StatementRun) -> Outcome:
    """Creates the procedure.

    Raises InvalidQuery for options that do not fit together, Invalid or NotImplementedConstruct for a wrong file URI,
    NotFound if there is no such dataset, AccessDenied without the permission to delegate the connection, and Duplicate
    if the procedure exists and the statement has no OR REPLACE.
    """
    procedure = _procedure(statement, run.evaluator)
    _check_connection(run.state.caller, procedure.connection, DELEGATE_CONNECTION)
    run.catalog.datasets.save_procedure(procedure, replaces=statement.replace)
    return run.outcome("CREATE_PROCEDURE")


def bind_call(statement: Call, evaluator: SqlEvaluator) -> tuple[Procedure, dict[str, str]]:
    """The procedure, and its arguments by name as JSON. Raises NotFound, InvalidQuery or AccessDenied."""
    procedure = evaluator.state.catalog.datasets.procedure(_routine_id(statement.name, evaluator.state))
    _check_connection(evaluator.state.caller, procedure.connection, USE_CONNECTION)
    if len(statement.arguments) != len(procedure.parameters):
        raise InvalidQuery(
            f"Procedure {procedure.id} is called with [{len(statement.arguments)}] arguments, "
            f"expected [{len(procedure.parameters)}]"
        )
    arguments = {}
    for (name, type_name), argument in zip(procedure.parameters, statement.arguments, strict=True):
        value = evaluator.value(argument)
        if value.value is not None:
            check_assignable(value.field, field_of_type(type_name))
        cast = exp.cast(argument.copy(), type_name, dialect="bigquery")
        arguments[name] = str(evaluator.python_value(exp.Anonymous(this="TO_JSON_STRING", expressions=[cast])))
    return procedure, arguments


def _procedure(statement: CreateProcedure, evaluator: SqlEvaluator) -> Procedure:
    routine = _routine_id(statement.name, evaluator.state)
    given = evaluate_options(statement.options, "procedure", evaluator.python_value)
    options = {name: value for name, value in given.items() if value is not None}
    if options.get("engine", "").upper() != "SPARK":
        raise InvalidQuery(f"Procedure {routine} has engine [{options.get('engine', '')}], expected [SPARK]")
    main_uri, version = options.get("main_file_uri"), options.get("runtime_version")
    if (main_uri is None) == (statement.code is None):
        raise InvalidQuery(f"Procedure {routine} needs either the option main_file_uri or code after AS, not both")
    if version is not None and not _RUNTIME_VERSION.fullmatch(version):
        raise InvalidQuery(f"Procedure {routine} has runtime_version [{version}], expected one such as [2.3]")
    location = evaluator.state.catalog.datasets.get(routine.dataset_id).location
    if statement.location.lower() != location.lower():
        raise InvalidQuery(
            f"Procedure {routine} is in location [{location}], its connection in [{statement.location}]: "
            "both must be in the same location"
        )
    properties = dict(options.get("properties", ()))
    refused = [name for name in properties if name.startswith(_REFUSED_PROPERTIES)]
    if refused:
        named = ", ".join(f"spark:{name}" for name in refused)
        raise InvalidQuery(
            f"Invalid value: Invalid properties: Attempted to set unsupported properties: [{named}]", 1, 1
        )
    python_files = options.get("py_file_uris", ())
    for uri in (*([main_uri] if main_uri else ()), *python_files):
        split_uri(uri)
        if "*" in uri:
            raise NotImplementedConstruct(f"wildcard in the file {uri} of a procedure")
    return Procedure(
        routine,
        statement.parameters,
        statement.connection,
        properties,
        python_files,
        main_uri,
        statement.code,
    )


def _routine_id(name: TableName, state: ScriptState) -> TableId:
    routine = state.defaults.table(name)
    state.check_location(routine.dataset_id)
    return routine


def _check_connection(caller: Caller, connection: str, permission: str) -> None:
    if not caller.has(permission):
        raise AccessDenied(
            f"Access Denied: Connection {connection}: [{caller.member}] does not have {permission} permission for it."
        )
