"""Objects on a file system behave as those of Cloud Storage do, as far as the job relies on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dedup_spark import storage


@pytest.fixture(params=["path", "file_uri"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path) if request.param == "path" else tmp_path.as_uri()


def test_text_is_read_as_it_was_written(root: str) -> None:
    uri = storage.join(root, "a/b.txt")
    storage.write_text(uri, "één\n")
    assert storage.read_text(uri) == "één\n"


def test_object_is_created_only_if_absent(root: str) -> None:
    uri = storage.join(root, "a/candidate.json")
    assert storage.create_text(uri, "first")
    assert not storage.create_text(uri, "second")
    assert storage.read_text(uri) == "first"
    assert list(storage.list_objects(root)) == ["a/candidate.json"]


def test_listing_names_objects_relative_to_the_folder(root: str) -> None:
    storage.write_text(storage.join(root, "f/date=1/x"), "12")
    storage.write_text(storage.join(root, "f/y"), "1")
    assert {name: found.size for name, found in storage.list_objects(storage.join(root, "f/")).items()} == {
        "date=1/x": 2,
        "y": 1,
    }
    assert storage.list_objects(storage.join(root, "absent")) == {}


def test_copy_replaces_its_target_and_outlives_its_source(root: str, tmp_path: Path) -> None:
    source, target = storage.join(root, "a"), storage.join(root, "b/c")
    storage.write_text(source, "new")
    storage.write_text(target, "old")
    storage.copy(source, target)
    (tmp_path / "a").unlink()
    assert storage.read_text(target) == "new"
    assert not storage.exists(source)


def test_a_repeated_copy_leaves_nothing_else_behind(root: str) -> None:
    source, target = storage.join(root, "a"), storage.join(root, "b/c")
    storage.write_text(source, "new")
    for _ in range(2):
        storage.copy(source, target)
    assert set(storage.list_objects(root)) == {"a", "b/c"}


def test_absent_object_is_file_not_found(root: str) -> None:
    with pytest.raises(FileNotFoundError):
        storage.read_text(storage.join(root, "absent"))


def test_object_of_a_bucket_or_of_a_folder() -> None:
    assert storage.object_uri("landing", "f/x") == "gs://landing/f/x"
    assert storage.object_uri("/data/landing", "f/x") == "/data/landing/f/x"
