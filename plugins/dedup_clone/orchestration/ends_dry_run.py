"""The first task of a DAG that can be tried dry: its result is the preview, and nothing after it runs."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseOperator, Context
from airflow.sdk.bases.skipmixin import SkipMixin

from dedup_clone.orchestration.connect import FeedSetup
from dedup_clone.orchestration.order_xcom import hand_on


class EndsDryRun(BaseOperator, SkipMixin):
    """A task of one feed that may end its run."""

    inherits_from_skipmixin = True

    def __init__(self, *, setup: FeedSetup, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.setup = setup

    def end_dry_run(self, context: Context, result: dict[str, Any]) -> None:
        """Hand on the preview and skip every task after this one."""
        hand_on(context, result)
        self.skip(context["ti"], self.get_flat_relatives(upstream=False))
