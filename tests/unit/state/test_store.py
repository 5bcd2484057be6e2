"""A conditional write belongs to the process whose write is stored, also if the answer to it was lost."""

from __future__ import annotations

import pytest

from dedup_clone.contract.errors import LostRace
from dedup_clone.state.store import ObjectStore
from testkit.lost_answers import losing_answers
from tests.unit.state.conftest import Buckets


def test_a_write_that_was_stored_but_answered_with_503_is_the_callers_own(buckets: Buckets) -> None:
    with losing_answers(buckets.client) as client:
        store = ObjectStore(client, buckets.state_bucket)
        assert store.create("record", "first")
        (created,) = store.stat(["record"])
        replaced = store.replace("record", "second", expected_object_generation=created.object_generation)
        found = store.read("record")
        assert found is not None
        assert (found.text, found.object_generation) == ("second", replaced)
        store.put("record", "third")
        (last,) = store.stat(["record"])
        assert store.delete("record", expected_object_generation=last.object_generation)
    assert store.read("record") is None


def test_of_two_writers_of_equal_text_only_the_first_believes_that_it_wrote(buckets: Buckets) -> None:
    first = buckets.state
    assert first.create("record", "same")
    (created,) = first.stat(["record"])
    with losing_answers(buckets.client) as client:
        second = ObjectStore(client, buckets.state_bucket)
        assert not second.create("record", "same")
        first.replace("record", "next", expected_object_generation=created.object_generation)
        with pytest.raises(LostRace, match="another run wrote it"):
            second.replace("record", "next", expected_object_generation=created.object_generation)
