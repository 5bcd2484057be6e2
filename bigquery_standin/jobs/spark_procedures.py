"""Creates stored procedures for Apache Spark, binds the arguments of CALL, and runs procedures by spark-submit.

They run on this machine; BigQuery runs them on its own machines. A procedure's arguments are in the environment of
driver and executors, as JSON. Sources: "Work with stored procedures for Apache Spark"; "Data definition language",
CREATE PROCEDURE.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sqlglot import exp

from bigquery_standin.bigquery_errors import AccessDenied, BackendError, InvalidQuery
from bigquery_standin.jobs.job_runner import JobContext
from bigquery_standin.jobs.object_store import HOST_VARIABLE, ObjectStore
from bigquery_standin.jobs.script_state import ScriptState
from bigquery_standin.jobs.sql_evaluator import SqlEvaluator, check_assignable
from bigquery_standin.jobs.statement_run import Outcome, StatementRun
from bigquery_standin.sql.ddl_options import evaluate_options
from bigquery_standin.sql.statements import Call, CreateProcedure
from bigquery_standin.sql.type_parser import TableName, field_of_type
from bigquery_standin.storage.access import DELEGATE_CONNECTION, USE_CONNECTION, Caller
from bigquery_standin.storage.model import Procedure, TableId

PARAMETER_PREFIX = "BIGQUERY_PROC_PARAM."
_GUARD = Path(__file__).with_name("guarded_command.py")
_ERROR = re.compile(r" ERROR |^[\w.]*(Error|Exception)\b")  # a line of a logger, or the end of a traceback


@dataclass(frozen=True)
class SparkSubmit:
    """Runs procedures. `folder`: for the log of each run, named after its job, and for the files of runs under way."""

    folder: Path
    objects: ObjectStore

    def run(self, procedure: Procedure, arguments: Mapping[str, str], job_id: str, context: JobContext) -> None:
        """Runs the procedure until it ends or the job is cancelled.

        Raises InvalidQuery with the log's last error if it fails, NotFound if one of its files does not exist,
        BackendError if Spark is not installed or the object store does not answer, and StoppedJob if the job was
        cancelled.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        log, cancel = self.folder / f"{job_id}.log", context.on_cancel
        with tempfile.TemporaryDirectory(dir=self.folder) as work, log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, str(_GUARD), *self._command(procedure, Path(work))],
                cwd=work,
                env=self._environment(arguments),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            assert process.stdin
            context.on_cancel = process.stdin.close
            try:
                if context.stop.is_set():
                    process.stdin.close()
                code = process.wait()
            finally:
                context.on_cancel = cancel
                process.stdin.close()
        context.check_cancelled()
        if code != 0:
            raise InvalidQuery(
                f"Procedure {procedure.id} failed: Spark ended with exit code {code}. {_last_error(log)} Log: {log}"
            )

    def _command(self, procedure: Procedure, work: Path) -> list[str]:
        """The command of spark-submit. This machine's settings override the procedure's properties."""
        conf = {**procedure.properties, **_machine_conf(self.objects.url)}
        command = [str(_spark_home() / "bin" / "spark-submit"), "--master", "local[*]", "--name", str(procedure.id)]
        for name, value in conf.items():
            command += ["--conf", f"{name}={value}"]
        if procedure.py_file_uris:
            files = (str(self._download(uri, work)) for uri in procedure.py_file_uris)
            command += ["--py-files", ",".join(files)]
        return [*command, str(self._download(procedure.main_file_uri, work))]

    def _download(self, uri: str, work: Path) -> Path:
        (file,) = self.objects.resolve([uri], is_manifest=False)
        path = Path(tempfile.mkdtemp(dir=work)) / file.name.rpartition("/")[2]
        path.write_bytes(self.objects.read(file))
        return path

    def _environment(self, arguments: Mapping[str, str]) -> dict[str, str]:
        """Spark's environment variables. As on BigQuery's machines, Python's path contains no source tree."""
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        parameters = {f"{PARAMETER_PREFIX}{name}": value for name, value in arguments.items()}
        return {**inherited, "SPARK_HOME": str(_spark_home()), HOST_VARIABLE: self.objects.url, **parameters}


def _machine_conf(object_store_url: str) -> dict[str, str]:
    """Spark's settings: one process, reachable from this machine only, whose `gs://` is the object store."""
    connector = _package_folder("pyspark_gcs") / "jars"
    jar = str(next(connector.glob("gcs-connector-*.jar"), connector))
    return {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        # The archive of Spark's classes that `make setup` makes; Java does without it if it is missing.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
        f"-XX:SharedArchiveFile={Path(sys.prefix) / 'share' / 'spark-classes.jsa'}",
        "spark.pyspark.python": sys.executable,
        "spark.ui.enabled": "false",
        "spark.driver.extraClassPath": jar,
        "spark.hadoop.fs.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
        "spark.hadoop.fs.AbstractFileSystem.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFS",
        "spark.hadoop.fs.gs.storage.root.url": f"{object_store_url}/",
        "spark.hadoop.fs.gs.auth.service.account.enable": "false",
        "spark.hadoop.fs.gs.auth.null.enable": "true",
        "spark.hadoop.fs.gs.project.id": "local",
    }


def _spark_home() -> Path:
    return _package_folder("pyspark")


def _package_folder(module: str) -> Path:
    found = importlib.util.find_spec(module)
    if found is None or found.origin is None:
        raise BackendError(f"The package of module {module} is not installed: CALL of a Spark procedure needs it.")
    return Path(found.origin).parent


def _last_error(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return next((line for line in reversed(lines) if _ERROR.search(line)), "Its log has no error.")


# BigQuery's page names only spark.yarn., as an example. Properties with the other prefixes would change where Spark
# runs, too, so they are refused here.
_REFUSED_PROPERTIES = ("spark.yarn.", "spark.master", "spark.submit.", "spark.kubernetes.")


def create_procedure(statement: CreateProcedure, run: StatementRun) -> Outcome:
    """Creates the procedure.

    Raises InvalidQuery for options that are missing or refused, NotFound if there is no such dataset, AccessDenied
    without the permission to delegate the connection, and Duplicate if the procedure exists and the statement has no
    OR REPLACE.
    """
    procedure = _procedure(statement, run)
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
    options = evaluate_options(statement.options, "procedure", evaluator.python_value)
    if str(options.get("engine")).upper() != "SPARK" or not options.get("main_file_uri"):
        raise InvalidQuery(f"Procedure {routine} needs the options engine, which is SPARK, and main_file_uri")
    properties = dict(options.get("properties", ()))
    refused = [name for name in properties if name.startswith(_REFUSED_PROPERTIES)]
    if refused:
        named = ", ".join(f"spark:{name}" for name in refused)
        raise InvalidQuery(
            f"Invalid value: Invalid properties: Attempted to set unsupported properties: [{named}]", 1, 1
        )
    return Procedure(
        routine,
        statement.parameters,
        statement.connection,
        properties=properties,
        py_file_uris=options.get("py_file_uris", ()),
        main_file_uri=options["main_file_uri"],
    )


def _routine_id(name: TableName, state: ScriptState) -> TableId:
    routine = state.record.table(name)
    state.check_location(routine.dataset_id)
    return routine


def _check_connection(caller: Caller, connection: str, permission: str) -> None:
    if not caller.has(permission):
        raise AccessDenied(
            f"Access Denied: Connection {connection}: [{caller.member}] does not have {permission} permission for it."
        )
