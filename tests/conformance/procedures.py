"""Scripts that create and call a stored procedure for Apache Spark, and the process that its program runs in."""

from __future__ import annotations

import uuid
from pathlib import Path

import psutil

from testkit.waiting import wait_for
from tests.conformance.sandbox import Sandbox

PROCEDURE_PERMISSIONS = ("bigquery.connections.delegate", "bigquery.connections.use")


def procedure(sandbox: Sandbox, code: str) -> str:
    """A script that creates a procedure with this program, and calls it."""
    project, name = sandbox.servers.project, f"{sandbox.name}.p"
    main = sandbox.upload(code, f"{uuid.uuid4().hex}.py")
    return (
        f"CREATE OR REPLACE PROCEDURE {name}() WITH CONNECTION `{project}.us.spark` "
        f"OPTIONS (engine = 'SPARK', runtime_version = '2.3', main_file_uri = '{main}') LANGUAGE PYTHON; CALL {name}()"
    )


def sleeping(pid_file: Path) -> str:
    """A program that writes its process id and then sleeps for long."""
    return f"import os, pathlib, time\npathlib.Path({str(pid_file)!r}).write_text(str(os.getpid()))\ntime.sleep(600)"


def started(pid_file: Path) -> int:
    """The process id of such a program, once it runs."""
    return int(wait_for(lambda: pid_file.exists() and pid_file.read_text(), "the program runs"))


def has_ended(pid: int) -> bool:
    """Whether the process has ended, though nobody may have asked for its exit code yet."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
