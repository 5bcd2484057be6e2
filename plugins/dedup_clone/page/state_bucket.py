"""Opens the state bucket in the web server.

The web server cannot read the profile, so environment variables name the bucket and the Airflow connection.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.state.store import ObjectStore

BUCKET_VARIABLE = "DEDUP_CLONE_STATE_BUCKET"
CONNECTION_VARIABLE = "DEDUP_CLONE_GOOGLE_CLOUD_CONNECTION"
DEFAULT_CONNECTION = "google_cloud_default"


def open_state_bucket(environment: Mapping[str, str] = os.environ) -> ObjectStore:
    """The state bucket. Raises ConfigurationError if no environment variable names it."""
    bucket = environment.get(BUCKET_VARIABLE)
    if not bucket:
        raise ConfigurationError(
            f"The web server does not know the state bucket: set the environment variable [{BUCKET_VARIABLE}] "
            f"to the profile's state_bucket."
        )
    from airflow.providers.google.cloud.hooks.gcs import GCSHook

    connection = environment.get(CONNECTION_VARIABLE) or DEFAULT_CONNECTION
    return ObjectStore(GCSHook(gcp_conn_id=connection).get_conn(), bucket)
