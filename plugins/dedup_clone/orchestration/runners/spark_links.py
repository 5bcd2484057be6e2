"""The links on the dedup task's page in Airflow: to the Spark run, its log and its UI."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from airflow.sdk import BaseOperatorLink, Context


class _RunLink(BaseOperatorLink):
    """A link to one of the Spark run's URLs: the one under `url_key` in the operator's `urls`."""

    url_key: ClassVar[str]

    @property
    def xcom_key(self) -> str:
        return f"spark_link_{self.url_key}"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        return str(operator.urls.get(self.url_key, ""))


class SparkRunLink(_RunLink):
    name = "Spark run"
    url_key = "run"


class DriverLogLink(_RunLink):
    name = "Driver log"
    url_key = "log"


class SparkUiLink(_RunLink):
    name = "Spark UI"
    url_key = "spark_ui"


LINKS = (SparkRunLink(), DriverLogLink(), SparkUiLink())


def push_links(context: Context, urls: Mapping[str, str]) -> None:
    """Stores the links at once, because Airflow itself would store them only when the task ends."""
    for link in LINKS:
        if link.url_key in urls:
            context["ti"].xcom_push(key=link.xcom_key, value=urls[link.url_key])
