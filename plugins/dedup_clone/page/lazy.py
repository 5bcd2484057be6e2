"""The application as Airflow gets it: every component loads the plugin, only the web server pays for it."""

from __future__ import annotations

from typing import Any


class LazyApplication:
    """An ASGI application that is imported and made when the first request comes."""

    def __init__(self) -> None:
        self._application: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._application is None:
            self._application = _make()
        await self._application(scope, receive, send)


def _make() -> Any:
    from dedup_clone.page.access import airflow_dependencies
    from dedup_clone.page.application import create_application
    from dedup_clone.page.bucket import open_state_bucket
    from dedup_clone.page.reading import Indexes

    return create_application(Indexes(open_state_bucket), *airflow_dependencies())
