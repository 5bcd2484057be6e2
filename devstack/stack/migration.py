"""Airflow's tables: made on the first start, migrated when Airflow's version changed."""

import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata

from devstack.stack.errors import PartFailed
from devstack.stack.health import last_lines
from devstack.stack.layout import Layout


def migrate_if_needed(layout: Layout, environment: Mapping[str, str]) -> bool:
    """Whether there was something to do: a migration that changes nothing still costs seconds."""
    stamp = layout.database / "migrated-to"
    version = metadata.version("apache-airflow")
    if stamp.exists() and stamp.read_text() == version:
        return False
    log = layout.log_of("migrate")
    with log.open("w") as output:
        command = [sys.executable, "-m", "airflow", "db", "migrate"]
        done = subprocess.run(
            command, env=dict(environment), cwd=layout.checkout, stdout=output, stderr=subprocess.STDOUT
        )
    if done.returncode != 0:
        lines = "\n".join(f"    {line}" for line in last_lines(log))
        raise PartFailed(
            f"Airflow's database in [{layout.database}] cannot be migrated to [{version}]:\n{lines}\n"
            f"  The whole log: {log}\n  To start over without its history: delete [{layout.database}]."
        )
    stamp.write_text(version)
    return True
