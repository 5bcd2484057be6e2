"""Measures the dedup job, and other ways of making the same table, on the same files (docs/costs-and-limits.md).

The packages dedup_clone and dedup_spark are imported from the checkout, because they are not installed.
"""

import sys
from pathlib import Path

_CHECKOUT = Path(__file__).resolve().parents[1]
for _folder in ("plugins", "spark_jobs"):
    if str(_CHECKOUT / _folder) not in sys.path:
        sys.path.append(str(_CHECKOUT / _folder))
