"""Prepares and checks the containers of docker-compose.yaml: `python -m devstack.containers VERB`.

Its verbs: `files` makes secrets, folders and logins before anything starts, `stores` makes buckets and dataset once
storage and the stand-in are up, and `healthy URL [--part NAME]` is a health check.
"""

import argparse
import os
import sys
from collections.abc import Mapping

from devstack.http_calls import Unreachable, says_healthy
from devstack.stack.layout import Layout, StackError

READABLE_BY_GROUP = 0o640  # the database's container runs as another user, of the same group


def prepare_files(layout: Layout, environ: Mapping[str, str]) -> None:
    """Make folders, logins and secrets, each secret in a file.

    Airflow reads these files by its `_CMD` settings, and PostgreSQL reads `database_password`.
    """
    # Imported late, here and below, because the health checks, which run every few seconds, do not need these modules.
    from devstack.stack import client_config, process_environment

    layout.make_folders()
    process_environment.write_airflow_files(layout)
    for name in process_environment.SECRETS:
        process_environment.secret(layout, name, mode=READABLE_BY_GROUP)
    password = process_environment.secret(layout, "database_password", mode=READABLE_BY_GROUP)
    database_url = f"postgresql+psycopg2://airflow:{password}@{environ['DEDUP_CLONE_DATABASE_HOST']}/airflow"
    client_config.write_file(layout.keys / "database_url", database_url, mode=READABLE_BY_GROUP)


def prepare_stores(layout: Layout, environ: Mapping[str, str]) -> None:
    """Make buckets, dataset and stack.env. Producer and demo take the servers' addresses from stack.env.

    Raises StackError if a server refuses, and Unreachable if one does not respond.
    """
    from devstack.stack import client_config, stores

    stores.create_missing(environ["STORAGE_EMULATOR_HOST"], environ["BIGQUERY_EMULATOR_HOST"])
    client_config.write_stack_env(layout, {name: environ[name] for name in client_config.ADDRESSES})


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m devstack.containers", description=__doc__)
    parser.add_argument("verb", choices=("files", "stores", "healthy"))
    parser.add_argument("url", nargs="?", help="with `healthy`: the server's health endpoint")
    parser.add_argument("--part", help="with `healthy`: a part of Airflow that the answer must call healthy, too")
    options = parser.parse_args(arguments)
    if options.verb == "healthy":
        return 0 if says_healthy(options.url, options.part) else 1
    prepare = prepare_files if options.verb == "files" else prepare_stores
    try:
        prepare(Layout(os.environ), os.environ)
    except (StackError, Unreachable) as error:
        print(f"containers: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
