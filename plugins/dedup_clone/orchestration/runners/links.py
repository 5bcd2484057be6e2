"""Links beside the task: the run's page, its driver's log, Spark's own page."""

from __future__ import annotations

from typing import Any, ClassVar

from airflow.sdk import BaseOperatorLink


class _RunLink(BaseOperatorLink):
    """The task leaves its links where Airflow finds them, each under a name of its own."""

    address: ClassVar[str]

    @property
    def xcom_key(self) -> str:
        return f"spark_link_{self.address}"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        return str(operator.addresses.get(self.address, ""))


class SparkRunLink(_RunLink):
    name = "Spark run"
    address = "run"


class DriverLogLink(_RunLink):
    name = "Driver log"
    address = "log"


class SparkUiLink(_RunLink):
    name = "Spark UI"
    address = "spark_ui"


LINKS = (SparkRunLink(), DriverLogLink(), SparkUiLink())
