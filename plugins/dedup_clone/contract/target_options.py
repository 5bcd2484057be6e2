"""Options of target that each swap sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

OWN_LABELS = "dedup_clone_"  # the keys of the labels that this project sets begin with it


@dataclass(frozen=True)
class TargetOptions:
    """Validated by the settings: no text has a quote, and keys and values of `labels` are identifiers."""

    friendly_name: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    require_partition_filter: bool = False
    kms_key: str | None = None


NO_OPTIONS = TargetOptions()
