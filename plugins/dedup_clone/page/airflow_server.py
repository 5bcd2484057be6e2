"""Connects the page's application with Airflow's web server: its login, its permissions, and the state bucket.

Every component of Airflow loads the plugin that registers the page, but only the web server needs the imports of the
application. So they are deferred to the first request.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dedup_clone.page.application import Permissions
    from dedup_clone.state.store import ObjectStore

BUCKET_VARIABLE = "DEDUP_CLONE_STATE_BUCKET"
CONNECTION_VARIABLE = "DEDUP_CLONE_GOOGLE_CLOUD_CONNECTION"
DEFAULT_CONNECTION = "google_cloud_default"


async def application(scope: Any, receive: Any, send: Any) -> None:
    """The page as an ASGI application, which is created at the first request."""
    await _create()(scope, receive, send)


@functools.cache
def _create() -> Any:
    from dedup_clone.page.application import create_application
    from dedup_clone.page.feed_reader import FeedReader

    return create_application(FeedReader(open_state_bucket), *airflow_dependencies())


def airflow_dependencies() -> tuple[Any, Callable[..., Permissions]]:
    """Two FastAPI dependencies: one rejects requests without a login (401, 403), one returns the user's permissions."""
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.models.resource_details import (
        AccessView,
        DagAccessEntity,
        DagDetails,
    )
    from airflow.api_fastapi.core_api.security import get_user, requires_access_view
    from fastapi import Depends

    from dedup_clone.page.application import Permissions

    current_user = Depends(get_user)

    def permissions(user: Any = current_user) -> Permissions:
        manager = get_auth_manager()

        def may_read(dag_id: str) -> bool:
            return manager.is_authorized_dag(method="GET", user=user, details=DagDetails(id=dag_id))

        def may_trigger(dag_id: str) -> bool:
            return manager.is_authorized_dag(
                method="POST", access_entity=DagAccessEntity.RUN, user=user, details=DagDetails(id=dag_id)
            )

        return Permissions(may_read, may_trigger)

    return requires_access_view(AccessView.WEBSITE), permissions


def open_state_bucket(environment: Mapping[str, str] = os.environ) -> ObjectStore:
    """The state bucket, which environment variables name, because the web server cannot read the profile.

    Raises ConfigurationError if no environment variable names it.
    """
    from dedup_clone.contract.errors import ConfigurationError
    from dedup_clone.state.store import ObjectStore

    bucket = environment.get(BUCKET_VARIABLE)
    if not bucket:
        raise ConfigurationError(
            f"The web server does not know the state bucket: set the environment variable [{BUCKET_VARIABLE}] "
            f"to the profile's state_bucket."
        )
    from airflow.providers.google.cloud.hooks.gcs import GCSHook

    connection = environment.get(CONNECTION_VARIABLE) or DEFAULT_CONNECTION
    return ObjectStore(GCSHook(gcp_conn_id=connection).get_conn(), bucket)
