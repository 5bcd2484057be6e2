"""Models of two sections `spark`: that of the profile says where jobs run, that of a feed says how large they are."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints

from dedup_clone.settings.strict_yaml import BucketName, LabelKey, LabelValue, StrictModel

Region = Annotated[str, StringConstraints(pattern=r"^[a-z]+-[a-z]+[0-9]+$")]
ServiceAccount = Annotated[str, StringConstraints(pattern=r"^[^@\s]+@[^@\s]+\.gserviceaccount\.com$")]
ClusterName = Annotated[str, StringConstraints(pattern=r"^[a-z]([a-z0-9-]{0,49}[a-z0-9])?$")]
Subnetwork = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_./:-]+$")]
NetworkTag = Annotated[str, StringConstraints(pattern=r"^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$")]
RuntimeVersion = Annotated[str, StringConstraints(pattern=r"^[0-9]+\.[0-9]+$")]
ConnectionPath = Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]+\.[A-Za-z0-9-]+\.[A-Za-z0-9_-]+$")]

MAX_DATAPROC_LABELS = 30  # Dataproc's limit is 32, and this project sets two labels on each run

_REASON_FOR_NO_JARS = "the job needs no jar, and an unpinned one is code that nobody reviewed"
# Properties that feeds may not set, and why. A name that ends in a dot stands for all names that begin with it.
_FORBIDDEN = {
    "spark.master": "the service chooses where Spark runs",
    "spark.submit.": "the service submits the job",
    "spark.yarn.": "serverless batches have no YARN and reject the property",
    "spark.shuffle.service.": "serverless batches have no external shuffle service and reject the property",
    "spark.kubernetes.": "the service decides it",
    "spark.app.name": "the job names itself",
    "spark.jars": _REASON_FOR_NO_JARS,
    "spark.jars.": _REASON_FOR_NO_JARS,
    "spark.executor.instances": "set [max_executors] instead",
    "spark.executor.cores": "set [max_executors] instead",
    "spark.executor.memory": "set [memory_gb_per_core] instead",
    "spark.executor.memoryOverhead": "set [memory_gb_per_core] instead",
    "spark.dynamicAllocation.": "set [max_executors] instead",
    "spark.default.parallelism": "set [max_executors] instead",
}


class Runner(StrEnum):
    """Where Spark runs."""

    LOCAL = "local"
    SERVERLESS = "serverless"
    CLUSTER = "cluster"
    BIGQUERY_PROCEDURE = "bigquery_procedure"


class SparkSettings(StrictModel):
    """The profile's section `spark`, for all runners but `local`.

    `runtime_version`: of serverless batches and procedures. `subnetwork`: must have Private Google Access.
    `staging_bucket`: Dataproc keeps logs and dependencies there; runtime 3.0 and later need none.
    `cluster`: the name of an existing cluster, for runner `cluster`.
    `procedure_connection`: BigQuery's connection to Spark, `project.location.name`, for runner `bigquery_procedure`.
    `usd_per_dcu_hour`: the price of a DCU (Data Compute Unit) hour of a serverless batch. `usd_per_vcpu_hour`: the
    price of a vCPU hour, with its memory, of the other runners; without it the ledger does not have their cost.
    `labels`: set on each run, beside the two of this project.
    """

    removed_keys: ClassVar[dict[str, str]] = dict.fromkeys(
        ("image_version", "machine_type", "disk_gb", "idle_delete_minutes"),
        "Runs create no clusters. Use runner [serverless], or name an existing cluster in [spark.cluster].",
    )

    region: Region | None = None
    service_account: ServiceAccount | None = None
    subnetwork: Subnetwork | None = None
    network_tags: tuple[NetworkTag, ...] = ()
    staging_bucket: BucketName | None = None
    runtime_version: RuntimeVersion = "2.3"
    cluster: ClusterName | None = None
    procedure_connection: ConnectionPath | None = None
    labels: Annotated[dict[LabelKey, LabelValue], Field(max_length=MAX_DATAPROC_LABELS)] = Field(default_factory=dict)
    usd_per_dcu_hour: Annotated[float, Field(ge=0)] = 0.06
    usd_per_vcpu_hour: Annotated[float, Field(ge=0)] | None = None

    @property
    def has_runtime_3(self) -> bool:
        """Whether batches run with runtime 3.0 or later, which differs in its accounts, buckets and APIs."""
        return int(self.runtime_version.partition(".")[0]) >= 3

    def missing_setting(self, runner: Runner) -> str | None:
        """The name of the first absent setting that `runner` requires; None if none is absent."""
        needed: tuple[str, ...] = {
            Runner.LOCAL: (),
            # Runtime 3.0 would otherwise run batches with the credentials of whoever submits them: Airflow's.
            Runner.SERVERLESS: ("region", "service_account") if self.has_runtime_3 else ("region",),
            Runner.CLUSTER: ("region", "cluster"),
            Runner.BIGQUERY_PROCEDURE: ("procedure_connection",),
        }[runner]
        return next((name for name in needed if getattr(self, name) is None), None)


class SparkSize(StrictModel):
    """The size of the Spark job (docs/costs-and-limits.md)."""

    removed_keys: ClassVar[dict[str, str]] = {
        "executors": "Their number follows from [target_minutes]; [max_executors] limits it.",
        "executor_cores": "An executor has four cores; more executors do the same as larger ones.",
        "driver_cores": "Set [spark.driver.cores] in [properties].",
    }

    target_minutes: Annotated[int, Field(ge=3, le=24 * 60)] = Field(default=20, examples=[40])
    """How long the job should take; determines the number of executors."""
    max_executors: Annotated[int, Field(ge=2, le=2000)] = Field(default=100, examples=[200])
    """Most executors of a publish."""
    memory_gb_per_core: Annotated[int, Field(ge=2, le=7)] = Field(default=3, examples=[4])
    """GiB for each core: JVM heap and Python."""
    properties: dict[str, str] = Field(default_factory=dict, examples=[{"spark.dataproc.driver.disk.size": "500g"}])
    """Further Spark properties, such as the driver's cores and memory."""

    def problems(self) -> Iterator[str]:
        for name in self.properties:
            if not name.startswith("spark."):
                yield f"property [{name}] is none of Spark's, expected a name that starts with [spark.]"
            for prefix, reason in _FORBIDDEN.items():
                if name == prefix or (prefix.endswith(".") and name.startswith(prefix)):
                    yield f"property [{name}] cannot be set: {reason}"
