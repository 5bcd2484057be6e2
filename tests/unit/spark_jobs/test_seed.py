"""The secret seed of a feed: made once, read by every job, shown nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from dedup_clone.contract.errors import ContractViolation
from dedup_spark.fingerprints.seed import Seed, read_seed


def test_seed_is_made_once_for_each_feed(tmp_path: Path) -> None:
    one, other = str(tmp_path / "one"), str(tmp_path / "other")
    assert read_seed(one) == read_seed(one)
    assert read_seed(one) != read_seed(other)
    assert len(read_seed(one).secret) == 32


@pytest.mark.parametrize("content", ["", "12", "no hexadecimal digits", "ab" * 31])
def test_damaged_seed_is_refused_with_the_next_step(tmp_path: Path, content: str) -> None:
    uri = tmp_path / "seed"
    uri.write_text(content)
    with pytest.raises(ContractViolation, match=r"seed.* is damaged.*Restore the object"):
        read_seed(str(uri))


def test_secret_is_not_shown() -> None:
    seed = Seed(b"a secret")
    assert "secret" not in repr(seed).replace("Seed()", "")
    assert seed.public_id != Seed(b"another").public_id
    assert b"a secret" not in seed.public_id.to_bytes(8, "big")
