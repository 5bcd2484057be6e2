"""Which files a job reads. Source: "Quotas and limits", load jobs."""

from __future__ import annotations

import pytest

from devstack.bigquery.bigquery_errors import Invalid
from devstack.bigquery.jobs import object_store
from devstack.bigquery.jobs.object_store import ObjectStore, SourceFile


@pytest.mark.parametrize("uri", ["gs://b*/name", "gs://b/*/*"])
def test_a_wildcard_in_the_buckets_name_and_a_second_one_are_refused(uri: str) -> None:
    with pytest.raises(Invalid, match="more than one wildcard or one in the bucket's name"):
        ObjectStore().resolve([uri], is_manifest=False)


def test_files_that_a_wildcard_matches_count_towards_the_limit_of_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [SourceFile(f"gs://b/{number}", "b", str(number), 1) for number in range(3)]
    monkeypatch.setattr(ObjectStore, "_match", lambda self, uri: found)
    assert ObjectStore().resolve(["gs://b/*"], is_manifest=False) == found
    monkeypatch.setattr(object_store, "MAXIMUM_FILES", 2)
    with pytest.raises(Invalid, match=r"\[3\] files, allowed \[2\]"):
        ObjectStore().resolve(["gs://b/*"], is_manifest=False)
