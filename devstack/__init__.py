"""The local stack, its BigQuery, the producer and the demo.

They read feed files and records with dedup_clone, which is not installed but imported from plugins/, as in Airflow.
"""

import sys
from pathlib import Path

_PLUGINS = str(Path(__file__).resolve().parents[1] / "plugins")
if _PLUGINS not in sys.path:
    sys.path.append(_PLUGINS)
