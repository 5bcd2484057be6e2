"""Creates the tables of Airflow's database on the first start, and migrates them after an upgrade of Airflow."""

import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata

from devstack.stack.health import last_lines
from devstack.stack.layout import Layout
from devstack.stack.stack_errors import PartFailed


def migrate_if_needed(layout: Layout, environment: Mapping[str, str]) -> bool:
    """Create or migrate the tables, if this version of Airflow has not done so before. Returns whether it did.

    Even a migration that changes nothing takes seconds, so it runs only once for each version. Raises PartFailed if
    Airflow reports an error.
    """
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
