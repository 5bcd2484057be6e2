"""The table options that a feed file may declare. Each swap sets them on target anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

OWN_LABELS = "dedup_clone_"  # prefix of the keys of labels that this project sets


@dataclass(frozen=True)
class TargetOptions:
    """The options of target, validated by the settings: no text has a quote, and labels consist of identifiers."""

    friendly_name: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    require_partition_filter: bool = False
    kms_key: str | None = None


NO_OPTIONS = TargetOptions()
