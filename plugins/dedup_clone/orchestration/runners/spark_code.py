"""Which Spark code belongs to the DAGs: the deployment notes it beside them, so that both change together."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from dedup_clone.contract.errors import ConfigurationError


@dataclass(frozen=True)
class SparkCode:
    """URIs of the job's main file and of the zip that it imports; their names hold a digest of the content."""

    main_uri: str
    archive_uri: str


def read_spark_code(note: Path) -> SparkCode:
    """Raises ConfigurationError when nothing was deployed, or not by the deployment."""
    try:
        plain = json.loads(note.read_text(encoding="utf-8"))
        code = SparkCode(plain["main"], plain["archive"])
    except OSError as error:
        raise ConfigurationError(
            f"[{note}] is not there, which names the deployed Spark code: run `make deploy`, then clear the task."
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(
            f"[{note}] is not as the deployment writes it: run `make deploy`, then clear the task."
        ) from error
    return code
