"""The section `content_audit` of a feed file: its defaults, and values that are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from dedup_clone.contract.billing import GIB
from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.settings.feed import read_feed

FEED = Path(__file__).parents[3] / "dags" / "feeds" / "worked_example.yaml"


def written(folder: Path, lines: str) -> Path:
    path = folder / FEED.name
    path.write_text(FEED.read_text() + lines)
    return path


def test_the_default_is_one_partition_a_day_within_64_gib(tmp_path: Path) -> None:
    audit = read_feed(FEED).content_audit
    assert (audit.enabled, audit.partitions_per_day, audit.bytes_per_day) == (True, 1, 64 * GIB)
    path = written(tmp_path, "content_audit:\n  enabled: false\n  partitions_per_day: 5\n  bytes_per_day: 10485760\n")
    assert read_feed(path).content_audit.model_dump() == {
        "enabled": False,
        "partitions_per_day": 5,
        "bytes_per_day": 10485760,
    }


@pytest.mark.parametrize("line", ["partitions_per_day: 0", "bytes_per_day: 10485759", "bytes_a_day: 10485760"])
def test_wrong_settings_are_refused_with_the_key(tmp_path: Path, line: str) -> None:
    with pytest.raises(ConfigurationError, match=line.split(":")[0]):
        read_feed(written(tmp_path, f"content_audit:\n  {line}\n"))
