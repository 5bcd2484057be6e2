"""Asks Airflow's auth manager which DAGs the logged-in user may read and trigger."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dedup_clone.page.application import Permissions


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
