"""requirements.txt has all of the lock; requirements/composer.txt has all that DAGs and plugins import."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import distribution, packages_distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from deploy.environment_settings import REPOSITORY

REQUIREMENTS = REPOSITORY / "requirements"
# Packages whose own requirements an environment has, too. Only the local runner imports the provider of Spark.
SHIPPED = (
    "apache-airflow-core",
    "apache-airflow-task-sdk",
    "apache-airflow-providers-google",
    "google-cloud-bigquery-storage",
)
LOCAL_ONLY = "apache-airflow-providers-apache-spark"


def read(path: Path) -> dict[str, Requirement]:
    lines = (re.split(r" +[\\#]", line)[0] for line in path.read_text().splitlines() if re.match(r"[A-Za-z]", line))
    parsed = [Requirement(line) for line in lines]
    return {canonicalize_name(r.name): r for r in parsed if r.marker is None or r.marker.evaluate()}


def imported(folder: Path) -> Iterator[str]:
    """Modules that the folder's files import, inside functions too."""
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


installed_modules = cache(packages_distributions)


def distributions(module: str) -> set[str]:
    """The installed distributions that may have the module. A namespace such as `google.cloud` belongs to many."""
    parts = module.split(".")
    if parts[0] in sys.stdlib_module_names or parts[0] in ("dedup_clone", "snapshots_plugin"):
        return set()
    if parts[:2] == ["airflow", "providers"]:
        words = 2 if parts[2] in ("apache", "common") else 1
        return {"-".join(["apache-airflow-providers", *parts[2 : 2 + words]])}
    named = {"google.cloud.bigquery": "google-cloud-bigquery", "google.cloud.storage": "google-cloud-storage"}
    named |= {"google.cloud.dataproc_v1": "google-cloud-dataproc", "google.api_core": "google-api-core"}
    for prefix, name in named.items():
        if module.startswith(prefix):
            return {name}
    return {canonicalize_name(name) for name in installed_modules()[parts[0]]}


def test_managed_airflow_gets_all_that_dags_and_plugins_import() -> None:
    composer = read(REQUIREMENTS / "composer.txt")
    there = {*composer, *SHIPPED}
    for name in SHIPPED:
        there |= {canonicalize_name(Requirement(r).name) for r in distribution(name).requires or ()}
    needed = {m: distributions(m) for folder in ("dags", "plugins") for m in imported(REPOSITORY / folder)}
    there.add(LOCAL_ONLY)
    missing = {m: names for m, names in needed.items() if names and not names & there}
    assert missing == {}
    direct = set().union(*needed.values())
    assert {name for name in composer if name not in direct} == set(), "nothing imports it"


def test_tests_run_with_versions_that_managed_airflow_would_accept() -> None:
    for name, requirement in read(REQUIREMENTS / "composer.txt").items():
        assert requirement.specifier.contains(distribution(name).version), name
        assert re.fullmatch(r">=[0-9.]+", str(requirement.specifier)), "Terraform reads only this form"


def test_pip_gets_the_versions_of_the_lock_and_both_spark_packages_of_one_version() -> None:
    pip, lock = read(REPOSITORY / "requirements.txt"), read(REQUIREMENTS / "dev.lock")
    direct = {**read(REQUIREMENTS / "dev.in"), **read(REQUIREMENTS / "runtime.in")}
    assert len(direct) > 20
    for name in set(direct) - {"pyspark"}:
        assert str(pip[name].specifier) == str(lock[name].specifier), name
    assert str(pip["pyspark"].specifier) == str(pip["pyspark-client"].specifier)
    assert direct["pyspark"].specifier.contains(str(pip["pyspark"].specifier).removeprefix("=="))
