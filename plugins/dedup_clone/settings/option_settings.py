"""The model of a feed's section `table.options`: options of target that each swap sets."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from dedup_clone.contract.target_options import OWN_LABELS, TargetOptions
from dedup_clone.settings.strict_yaml import StrictModel

MAX_LABELS = 61  # BigQuery's limit is 64, and each swap sets three labels of this project

LabelKey = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,62}$")]
LabelValue = Annotated[str, Field(pattern=r"^[a-z0-9_-]{0,63}$")]

_PART = r'[^/"\\\s]+'
KmsKey = Annotated[str, Field(pattern=rf"^projects/{_PART}/locations/{_PART}/keyRings/{_PART}/cryptoKeys/{_PART}$")]


class OptionSettings(StrictModel):
    """Options that every swap sets on target; it removes others."""

    friendly_name: Annotated[str, Field(pattern=r'^[^"\\\n]{1,1024}$')] | None = Field(
        default=None, examples=["Orders by day"]
    )
    """The table's display name."""
    labels: dict[LabelKey, LabelValue] = Field(
        default_factory=dict, max_length=MAX_LABELS, examples=[{"team": "sales"}]
    )
    """Labels. This project adds three, whose keys begin with `dedup_clone_`."""
    require_partition_filter: bool = Field(default=False, examples=[True])
    """Whether queries without a filter on the partition column fail."""
    kms_key: KmsKey | None = Field(
        default=None, examples=["projects/my-project/locations/eu/keyRings/tables/cryptoKeys/orders"]
    )
    """Cloud KMS key of staging, target and the incoming table."""

    @model_validator(mode="after")
    def labels_are_free(self) -> Self:
        taken = [key for key in self.labels if key.startswith(OWN_LABELS)]
        if taken:
            raise ValueError(f"labels {taken} begin with [{OWN_LABELS}], as this project's own do: rename them")
        return self

    def to_contract(self) -> TargetOptions:
        return TargetOptions(self.friendly_name, self.labels, self.require_partition_filter, self.kms_key)
