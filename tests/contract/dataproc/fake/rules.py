"""Checks requests by the rules of the real services, from their public reference. Breaches raise Refused."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from google.cloud.dataproc_v1 import Batch

from tests.contract.dataproc.fake.faults import Refused

BATCH_ID = re.compile(r"[a-z0-9-]{4,63}")
JOB_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")
# The reference demands RFC 1035 of labels; this project's own labels follow it. Google's general rules of labels allow
# more; the labels of a profile follow the general rules.
RFC_1035 = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
LABEL_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
LABEL_VALUE = re.compile(r"[a-z0-9_-]{0,63}")
# From the page on Spark properties, which has one list for all runtimes: most of Spark's own properties, except those
# of YARN and of the external shuffle service. Not all properties of shuffles are refused, because Google's Jupyter
# plugin sets spark.shuffle.manager. Users reported that spark.submit.pyFiles is refused.
ALLOWED_BY_SERVERLESS = ("spark.", "dataproc.")
REFUSED_BY_SERVERLESS = ("spark.master", "spark.yarn.", "spark.shuffle.service.", "spark.submit.")
# Pairs are the least and the greatest value that is allowed.
LIFETIME_S = (600, 14 * 24 * 3600)
MB_PER_CORE = (1024, 7424)
# From the page on autoscaling. Its versions name different limits of initial executors; this is the lowest of them.
EXECUTORS = {"initialExecutors": (2, 100), "minExecutors": (2, 2000), "maxExecutors": (2, 2000)}
PINNED_RUNTIMES = ("2.3", "3.0")
PROJECT, REGION = "my-project", "europe-west1"  # of the tests' settings


def require(condition: object, message: str) -> None:
    """Raise Refused if the condition is false."""
    if not condition:
        raise Refused("INVALID_ARGUMENT", message)


def check_place(*places: str) -> None:
    """Require that projects, regions, and resource names of a request are of the tests' project and region."""
    parent = f"projects/{PROJECT}/locations/{REGION}"
    allowed = (PROJECT, REGION, parent)
    for place in places:
        require(place in allowed or place.startswith(f"{parent}/"), f"[{place}] is another project or region")


def check_name(pattern: re.Pattern[str], name: str) -> None:
    require(pattern.fullmatch(name), f"[{name}] does not match {pattern.pattern}")


def check_labels(labels: Mapping[str, str]) -> None:
    require(len(labels) <= 32, "more than 32 labels")
    for key, value in labels.items():
        is_own = key.startswith("dedup")
        check_name(RFC_1035 if is_own else LABEL_KEY, key)
        check_name(RFC_1035 if is_own else LABEL_VALUE, value)


def check_property_names(names: Iterable[str]) -> None:
    refused = [
        f"spark:{name}"
        for name in names
        if not name.startswith(ALLOWED_BY_SERVERLESS) or name.startswith(REFUSED_BY_SERVERLESS)
    ]
    require(not refused, f"Attempted to set unsupported properties: [ {', '.join(refused)} ]")


def check_serverless_properties(properties: Mapping[str, str]) -> None:
    check_property_names(properties)
    counts = {kind: int(properties[f"spark.dynamicAllocation.{kind}"]) for kind in EXECUTORS}
    for kind, (low, high) in EXECUTORS.items():
        require(low <= counts[kind] <= high, f"spark.dynamicAllocation.{kind} is {counts[kind]}")
    require(
        counts["minExecutors"] <= counts["initialExecutors"] <= counts["maxExecutors"], f"executors in order: {counts}"
    )
    for role in ("driver", "executor"):
        cores = int(properties[f"spark.{role}.cores"])
        require(cores in (4, 8, 16), f"spark.{role}.cores is {cores}")
        memory = sum(int(properties[f"spark.{role}.{kind}"].removesuffix("m")) for kind in ("memory", "memoryOverhead"))
        low, high = MB_PER_CORE
        require(low <= memory / cores <= high, f"{role} memory of {memory} MB for {cores} cores")


def check_batch(batch: Batch) -> None:
    """Check a batch.

    Runtime 3.0 allows no staging bucket, and without a type of authentication a batch runs as the user who submits it.
    """
    check_labels(batch.labels)
    check_serverless_properties(batch.runtime_config.properties)
    execution, version = batch.environment_config.execution_config, batch.runtime_config.version
    require(LIFETIME_S[0] <= execution.ttl.total_seconds() <= LIFETIME_S[1], f"ttl of {execution.ttl}")
    require("idle_ttl" not in execution, "idle_ttl applies to sessions only")
    require(version in PINNED_RUNTIMES, f"runtime version {version}")
    if version == "3.0":
        authentication = execution.authentication_config.user_workload_authentication_type.name
        require(authentication == "SERVICE_ACCOUNT" and execution.service_account, f"runs as {authentication}")
        require(not execution.staging_bucket, "a staging bucket")
