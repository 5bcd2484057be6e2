"""The producer: generates complete snapshots, and lands them as the data contract demands, the marker last.

It reads feed files with dedup_clone, which is not installed but imported from plugins/, as in Airflow.
"""

import sys
from pathlib import Path

_PLUGINS = str(Path(__file__).resolve().parents[2] / "plugins")
if _PLUGINS not in sys.path:
    sys.path.append(_PLUGINS)
