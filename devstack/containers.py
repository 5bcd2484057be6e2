"""Prepares and checks the containers of docker-compose.yaml: `python -m devstack.containers VERB`.

Its verbs: `files` makes secrets, folders and logins before anything starts, `stores` makes buckets and dataset once
storage and the stand-in are up, and `healthy URL [--part NAME]` is a health check.
"""

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from devstack.http_calls import Unreachable, call
from devstack.stack.stack_errors import StackError

if TYPE_CHECKING:
    from devstack.stack.layout import Layout

HEALTH_TIMEOUT_S = 5.0


def is_healthy(url: str, airflow_part: str | None = None) -> bool:
    """Whether `url` answers and, if `airflow_part` is given, says that this part of Airflow is healthy."""
    try:
        answer = call("GET", url, timeout_s=HEALTH_TIMEOUT_S)
    except Unreachable:
        return False
    if not answer.ok or airflow_part is None:
        return answer.ok
    part = answer.json().get(airflow_part) or {}
    return bool(part.get("status") == "healthy")


def prepare_files(layout: "Layout", environ: Mapping[str, str]) -> None:
    """Make folders, logins and secrets, each secret in a file.

    Airflow reads these files by its `_CMD` settings, and PostgreSQL reads `database_password`.
    """
    from devstack.stack import airflow_settings

    layout.make_folders()
    keys, folder = airflow_settings.load_or_make_keys(layout), layout.local / "keys"
    password_file = folder / "database_password"
    if not password_file.exists():
        _write(password_file, airflow_settings.new_key())
    host = environ["DEDUP_CLONE_DATABASE_HOST"]
    texts = {
        "fernet_key": keys.fernet_key,
        "jwt_secret": keys.jwt_secret,
        "api_secret_key": keys.api_secret_key,
        "database_url": f"postgresql+psycopg2://airflow:{password_file.read_text()}@{host}/airflow",
    }
    for name, text in texts.items():
        _write(folder / name, text)
    airflow_settings.write_files(layout)


def _write(path: Path, text: str) -> None:
    """Write a file that the database's container can read. That container runs as another user, of the same group."""
    from devstack.stack import client_config

    path.parent.mkdir(parents=True, exist_ok=True)
    client_config.write_file(path, text, mode=0o640)


def prepare_stores(layout: "Layout", environ: Mapping[str, str]) -> None:
    """Make buckets, dataset and stack.env. Producer and demo take the servers' addresses from stack.env.

    Raises StackError if a server refuses, and Unreachable if one does not respond.
    """
    from devstack.stack import client_config, stores

    stores.create_missing(environ["STORAGE_EMULATOR_HOST"], environ["BIGQUERY_EMULATOR_HOST"])
    names = ("STORAGE_EMULATOR_HOST", "BIGQUERY_EMULATOR_HOST", "AIRFLOW_URL", "BIGQUERY_STORAGE_EMULATOR_HOST")
    variables = client_config.connection_variables(*(environ[name] for name in names))
    client_config.write_variables(layout.stack_env, variables)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m devstack.containers", description=__doc__)
    parser.add_argument("verb", choices=("files", "stores", "healthy"))
    parser.add_argument("url", nargs="?", help="with `healthy`: the server's health endpoint")
    parser.add_argument("--part", help="with `healthy`: a part of Airflow that the answer must call healthy, too")
    options = parser.parse_args(arguments)
    if options.verb == "healthy":
        return 0 if is_healthy(options.url, options.part) else 1
    # Imported late, here and above, because the health checks, which run every few seconds, do not need these modules.
    from devstack.stack.layout import Layout

    prepare = prepare_files if options.verb == "files" else prepare_stores
    try:
        prepare(Layout(os.environ), os.environ)
    except (StackError, Unreachable) as error:
        print(f"containers: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
