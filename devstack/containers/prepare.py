"""The two one-off steps: secrets and files before anything starts, buckets and dataset once the stores are up."""

import os
from collections.abc import Mapping
from pathlib import Path

from devstack.stack import airflow_settings, client_tools, resources, secret_keys
from devstack.stack.layout import Layout
from devstack.stack.names import (
    AIRFLOW_PASSWORD,
    AIRFLOW_USER,
    DATASET,
    LANDING_BUCKET,
    PROJECT_ID,
    STATE_BUCKET,
)

DATABASE_HOST_VARIABLE = "DEDUP_CLONE_DATABASE_HOST"


def keys_folder(layout: Layout) -> Path:
    return layout.local / "keys"


def prepare_files(layout: Layout, environ: Mapping[str, str]) -> None:
    """Folders, secrets (made once, one a file, as Airflow's `_CMD` settings and PostgreSQL read them) and logins."""
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
        _put(keys_folder(layout) / name, text)
    airflow_settings.write_files(layout)


def prepare_stores(layout: Layout, environ: Mapping[str, str]) -> None:
    """Buckets, dataset, and the file by which producer and demo find the parts."""
    resources.make_missing(environ["STORAGE_EMULATOR_HOST"], environ["BIGQUERY_EMULATOR_HOST"])
    client_tools.write_variables(
        layout.stack_env,
        {
            "STORAGE_EMULATOR_HOST": environ["STORAGE_EMULATOR_HOST"],
            "BIGQUERY_EMULATOR_HOST": environ["BIGQUERY_EMULATOR_HOST"],
            "AIRFLOW_URL": environ["AIRFLOW_URL"],
            "AIRFLOW_USER": AIRFLOW_USER,
            "AIRFLOW_PASSWORD": AIRFLOW_PASSWORD,
            "PROJECT_ID": PROJECT_ID,
            "LANDING_BUCKET": LANDING_BUCKET,
            "STATE_BUCKET": STATE_BUCKET,
            "DATASET": DATASET,
        },
    )


def _password(path: Path) -> str:
    if not path.exists():
        _put(path, secret_keys.new_key())
    return path.read_text()


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(path.name + ".new")
    # The database runs as another user of the same group; nobody outside the containers sees this volume.
    new.touch(mode=0o640)
    new.write_text(text)
    os.replace(new, path)
