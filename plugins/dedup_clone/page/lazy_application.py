"""Defers the imports of the page's application to the first request.

Every component of Airflow loads the plugin that registers the page, but only the web server needs these imports.
"""

from __future__ import annotations

from typing import Any


class LazyApplication:
    """An ASGI application that creates the page's application at the first request, and passes all requests to it."""

    def __init__(self) -> None:
        self._application: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._application is None:
            self._application = _create()
        await self._application(scope, receive, send)


def _create() -> Any:
    from dedup_clone.page.access import airflow_dependencies
    from dedup_clone.page.application import create_application
    from dedup_clone.page.feed_reader import FeedReader
    from dedup_clone.page.state_bucket import open_state_bucket

    return create_application(FeedReader(open_state_bucket), *airflow_dependencies())
