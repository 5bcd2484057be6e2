"""The producer: makes complete snapshots and lands them as the data contract says (files first, marker last).

It reads feed files with the library, which no environment installs: it lies in plugins/, where Airflow finds it too.
"""

import sys
from pathlib import Path

_PLUGINS = str(Path(__file__).resolve().parents[2] / "plugins")
if _PLUGINS not in sys.path:
    sys.path.append(_PLUGINS)
