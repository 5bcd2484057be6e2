"""Table options of target, which each swap sets anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

OWN_LABELS = "dedup_clone_"  # prefix of the keys of labels that this project sets


@dataclass(frozen=True)
class TargetOptions:
    """The options that a feed file may declare.

    The settings have validated them: no text has a quote, and keys and values of `labels` are identifiers.
    """

    friendly_name: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    require_partition_filter: bool = False
    kms_key: str | None = None


NO_OPTIONS = TargetOptions()
