"""Which Spark properties a feed may set: none that a managed service refuses, none that the runner decides itself."""

from __future__ import annotations

from collections.abc import Mapping

# Serverless batches have no YARN, no external shuffle service and no choice of master; they refuse the whole batch.
_REFUSED = {
    "spark.master": "the service chooses where Spark runs",
    "spark.submit.": "the service submits the job",
    "spark.yarn.": "serverless batches have no YARN and refuse the batch",
    "spark.shuffle.service.": "serverless batches have no external shuffle service and refuse the batch",
    "spark.kubernetes.": "the service decides it",
    "spark.app.name": "the job names itself",
    "spark.jars": "the job needs no jar, and an unpinned one is code that nobody reviewed",
}
# One place each: the section's own keys, which are checked against each other and written into the log.
_DECIDED = {
    "spark.executor.instances": "executors",
    "spark.executor.cores": "executor_cores",
    "spark.executor.memory": "memory_gb_per_core",
    "spark.executor.memoryOverhead": "memory_gb_per_core",
    "spark.driver.cores": "driver_cores",
    "spark.driver.memory": "memory_gb_per_core",
    "spark.driver.memoryOverhead": "memory_gb_per_core",
    "spark.dynamicAllocation.": "max_executors",
    "spark.default.parallelism": "max_executors",
}


def unfit_properties(properties: Mapping[str, str]) -> str | None:
    """The first property that may not be set, and why; None when all may."""
    for name in properties:
        if not name.startswith("spark."):
            return f"property [{name}] is none of Spark's, expected a name that starts with [spark.]"
        for prefix, why in _REFUSED.items():
            if _names(name, prefix):
                return f"property [{name}] cannot be set: {why}"
        for prefix, key in _DECIDED.items():
            if _names(name, prefix):
                return f"property [{name}] follows from the size: set [{key}] instead"
    return None


def _names(name: str, prefix: str) -> bool:
    return name == prefix or (prefix.endswith(".") and name.startswith(prefix))
