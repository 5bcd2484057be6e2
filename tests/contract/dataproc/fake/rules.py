"""What the real services refuse: names, labels, sizes and properties, from their public reference."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tests.contract.dataproc.fake.faults import Refused

BATCH_ID = re.compile(r"[a-z0-9-]{4,63}")
JOB_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")
CLUSTER_NAME = re.compile(r"[a-z]([a-z0-9-]{0,49}[a-z0-9])?")
LABEL_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
LABEL_VALUE = re.compile(r"[a-z0-9_-]{0,63}")
REFUSED_BY_SERVERLESS = ("spark.master", "spark.yarn.", "spark.shuffle.service.", "spark.submit.deployMode")
TTL_S = (600, 14 * 24 * 3600)
IDLE_S = (300, 14 * 24 * 3600)
MB_PER_CORE = (1024, 7424)


def require(good: object, message: str) -> None:
    if not good:
        raise Refused("INVALID_ARGUMENT", message)


def check_name(pattern: re.Pattern[str], name: str) -> None:
    require(pattern.fullmatch(name), f"[{name}] does not match {pattern.pattern}")


def check_labels(labels: Mapping[str, str]) -> None:
    require(len(labels) <= 32, "more than 32 labels")
    for key, value in labels.items():
        check_name(LABEL_KEY, key)
        check_name(LABEL_VALUE, value)


def check_serverless_properties(properties: Mapping[str, str]) -> None:
    for name in properties:
        require(not name.startswith(REFUSED_BY_SERVERLESS), f"Unsupported property {name}")
    for role in ("driver", "executor"):
        cores = int(properties[f"spark.{role}.cores"])
        require(cores in (4, 8, 16), f"spark.{role}.cores is {cores}")
        memory = sum(int(properties[f"spark.{role}.{kind}"].removesuffix("m")) for kind in ("memory", "memoryOverhead"))
        low, high = MB_PER_CORE
        require(low <= memory / cores <= high, f"{role} memory of {memory} MB for {cores} cores")


def check_duration(seconds: float, bounds: tuple[int, int], what: str) -> None:
    require(bounds[0] <= seconds <= bounds[1], f"{what} of {seconds} s")
