"""Where Spark runs and how large: what a profile says of the place, what a feed may say of the size."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from dedup_clone.settings.identifiers import BucketName
from dedup_clone.settings.spark_properties import unfit_properties
from dedup_clone.settings.strict_yaml import StrictModel

Region = Annotated[str, StringConstraints(pattern=r"^[a-z]+-[a-z]+[0-9]+$")]
ServiceAccount = Annotated[str, StringConstraints(pattern=r"^[^@\s]+@[^@\s]+\.gserviceaccount\.com$")]
ClusterName = Annotated[str, StringConstraints(pattern=r"^[a-z]([a-z0-9-]{0,49}[a-z0-9])?$")]
Subnetwork = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_./:-]+$")]
NetworkTag = Annotated[str, StringConstraints(pattern=r"^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$")]
MachineType = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+-[a-z]+-[0-9]+$")]
RuntimeVersion = Annotated[str, StringConstraints(pattern=r"^[0-9]+\.[0-9]+$")]
ImageVersion = Annotated[str, StringConstraints(pattern=r"^[0-9]+\.[0-9]+(\.[0-9]+)?-[a-z]+[0-9]+$")]
ConnectionPath = Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]+\.[A-Za-z0-9-]+\.[A-Za-z0-9_-]+$")]
LabelKey = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,62}$")]
LabelValue = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_-]{0,63}$")]

MIN_MINUTES_LEFT = 5  # the service deletes no cluster earlier


class Runner(StrEnum):
    """Where Spark runs."""

    LOCAL = "local"
    SERVERLESS = "serverless"
    CLUSTER = "cluster"
    BIGQUERY_PROCEDURE = "bigquery_procedure"


class ClusterSettings(StrictModel):
    """Runner `cluster`: the existing cluster of that `name`; without a name, one is made for each run and deleted.

    The others describe the cluster that is made. `idle_delete_minutes` is its safety net, should nobody delete it.
    """

    name: ClusterName | None = None
    image_version: ImageVersion = "2.3-debian12"
    machine_type: MachineType = "n2-standard-8"
    disk_gb: Annotated[int, Field(ge=30, le=10_000)] = 200
    idle_delete_minutes: Annotated[int, Field(ge=MIN_MINUTES_LEFT, le=24 * 60)] = 10


class SparkSettings(StrictModel):
    """The profile's section `spark`: what every runner but `local` needs.

    `runtime_version`: of serverless batches and procedures. `subnetwork`: needs Private Google Access.
    `procedure_connection`: BigQuery's connection to Spark, `project.location.name`, for `bigquery_procedure`.
    """

    region: Region | None = None
    service_account: ServiceAccount | None = None
    subnetwork: Subnetwork | None = None
    network_tags: tuple[NetworkTag, ...] = ()
    staging_bucket: BucketName | None = None
    runtime_version: RuntimeVersion = "2.3"
    cluster: ClusterSettings = ClusterSettings()
    procedure_connection: ConnectionPath | None = None
    labels: dict[LabelKey, LabelValue] = Field(default_factory=dict)

    def missing_for(self, runner: Runner) -> str | None:
        """The setting that `runner` cannot do without and that is not given."""
        needed = {
            Runner.LOCAL: None,
            Runner.SERVERLESS: "region",
            Runner.CLUSTER: "region",
            Runner.BIGQUERY_PROCEDURE: "procedure_connection",
        }[runner]
        return needed if needed and getattr(self, needed) is None else None


class SparkSize(StrictModel):
    """A feed's section `spark`: bounds of the size that each publish computes, and whatever is not to be computed.

    `target_minutes`: how long the job may take. `max_executors`: of four cores each unless `executor_cores` says
    otherwise. `executors`: this many and no computation. `memory_gb_per_core`: heap and what Python takes, together.
    """

    target_minutes: Annotated[int, Field(ge=3, le=24 * 60)] = 20
    max_executors: Annotated[int, Field(ge=2, le=2000)] = 100
    executors: Annotated[int, Field(ge=2, le=2000)] | None = None
    executor_cores: Literal[4, 8, 16] = 4
    driver_cores: Literal[4, 8, 16] = 4
    memory_gb_per_core: Annotated[int, Field(ge=2, le=7)] = 3
    properties: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def fits(self) -> Self:
        problem = unfit_properties(self.properties)
        if problem:
            raise ValueError(problem)
        if self.executors is not None and self.executors > self.max_executors:
            raise ValueError(f"executors [{self.executors}] are more than max_executors [{self.max_executors}]")
        return self
