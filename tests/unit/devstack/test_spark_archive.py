"""The shipped Spark code: the same bytes from the same sources, another digest from others; it runs from the zip."""

from __future__ import annotations

import io
import os
import shutil
import zipfile
from pathlib import Path

import pytest

from devstack.spark_archive import build_spark_code

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(REPOSITORY / "plugins/dedup_clone", tmp_path / "tree/plugins/dedup_clone", ignore=ignore)
    shutil.copytree(REPOSITORY / "spark_jobs", tmp_path / "tree/spark_jobs", ignore=ignore)
    return tmp_path / "tree"


def test_the_same_sources_give_the_same_bytes_wherever_and_whenever(sources: Path) -> None:
    first = build_spark_code(REPOSITORY)
    for path in sources.rglob("*.py"):
        os.utime(path, (0, 0))
        path.chmod(0o600)
    assert build_spark_code(sources) == first


@pytest.mark.parametrize(
    "name", ["spark_jobs/dedup_snapshot.py", "spark_jobs/dedup_spark/job.py", "plugins/dedup_clone/contract/attempt.py"]
)
def test_an_edit_gives_another_digest(sources: Path, name: str) -> None:
    before = build_spark_code(sources).digest
    (sources / name).write_text((sources / name).read_text() + "# edited\n")
    assert build_spark_code(sources).digest != before


def test_what_the_job_does_not_import_changes_nothing(sources: Path) -> None:
    before = build_spark_code(sources).digest
    (sources / "plugins/dedup_clone/publish/resolve.py").write_text("")
    (sources / "spark_jobs/dedup_spark/__pycache__").mkdir()
    (sources / "spark_jobs/dedup_spark/__pycache__/x.pyc").write_text("")
    assert build_spark_code(sources).digest == before


def test_the_zip_holds_the_job_and_its_contract_and_nothing_else() -> None:
    names = zipfile.ZipFile(io.BytesIO(build_spark_code(REPOSITORY).archive)).namelist()
    assert {name.split("/")[0] for name in names} == {"dedup_clone", "dedup_spark"}
    assert {name.split("/")[1] for name in names if name.startswith("dedup_clone/")} == {"__init__.py", "contract"}
    assert names == sorted(names)
