"""What the person who looks may see and start, as Airflow's auth manager says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dedup_clone.page.rights import Rights


def airflow_dependencies() -> tuple[Any, Callable[..., Rights]]:
    """The dependency that refuses strangers (401, 403), and the one that hands out the rights of the others."""
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.models.resource_details import (
        AccessView,
        DagAccessEntity,
        DagDetails,
    )
    from airflow.api_fastapi.core_api.security import get_user, requires_access_view
    from fastapi import Depends

    person = Depends(get_user)

    def rights(user: Any = person) -> Rights:
        manager = get_auth_manager()

        def may_read(dag_id: str) -> bool:
            return manager.is_authorized_dag(method="GET", user=user, details=DagDetails(id=dag_id))

        def may_trigger(dag_id: str) -> bool:
            return manager.is_authorized_dag(
                method="POST", access_entity=DagAccessEntity.RUN, user=user, details=DagDetails(id=dag_id)
            )

        return Rights(may_read, may_trigger)

    return requires_access_view(AccessView.WEBSITE), rights
