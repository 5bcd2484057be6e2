"""Prepares the containers in two steps.

Secrets and files are made before anything starts, buckets and dataset once storage and the stand-in are up.
"""

from collections.abc import Mapping
from pathlib import Path

from devstack.stack import airflow_settings, client_config, secret_keys, stores
from devstack.stack.layout import Layout

DATABASE_HOST_VARIABLE = "DEDUP_CLONE_DATABASE_HOST"


def keys_folder(layout: Layout) -> Path:
    return layout.local / "keys"


def prepare_files(layout: Layout, environ: Mapping[str, str]) -> None:
    """Make folders, logins and secrets, each secret in a file.

    Airflow reads these files by its `_CMD` settings, and PostgreSQL reads `database_password`.
    """
    layout.make_folders()
    keys = secret_keys.load_or_make(layout)
    password = _password(keys_folder(layout) / "database_password")
    host = environ[DATABASE_HOST_VARIABLE]
    texts = {
        "fernet_key": keys.fernet_key,
        "jwt_secret": keys.jwt_secret,
        "api_secret_key": keys.api_secret_key,
        "database_url": f"postgresql+psycopg2://airflow:{password}@{host}/airflow",
    }
    for name, text in texts.items():
        _write(keys_folder(layout) / name, text)
    airflow_settings.write_files(layout)


def prepare_stores(layout: Layout, environ: Mapping[str, str]) -> None:
    """Make buckets, dataset and stack.env. Producer and demo take the servers' addresses from stack.env.

    Raises StackError if a server refuses, and Unreachable if one does not respond.
    """
    stores.create_missing(environ["STORAGE_EMULATOR_HOST"], environ["BIGQUERY_EMULATOR_HOST"])
    names = ("STORAGE_EMULATOR_HOST", "BIGQUERY_EMULATOR_HOST", "AIRFLOW_URL", "BIGQUERY_STORAGE_EMULATOR_HOST")
    variables = client_config.connection_variables(*(environ[name] for name in names))
    client_config.write_variables(layout.stack_env, variables)


def _password(path: Path) -> str:
    """The password in a file. If the file is missing, a new password is stored in it."""
    if not path.exists():
        _write(path, secret_keys.new_key())
    return path.read_text()


def _write(path: Path, text: str) -> None:
    """Write a file that the database's container can read. That container runs as another user, of the same group."""
    path.parent.mkdir(parents=True, exist_ok=True)
    client_config.write_file(path, text, mode=0o640)
