"""The local stack, its BigQuery, the producer and the demo.

They read feed files and records with dedup_clone, and columns with dedup_spark. Neither is installed: as in Airflow and
in Spark, they are imported from plugins/ and spark_jobs/.
"""

import sys
from pathlib import Path

for _folder in ("plugins", "spark_jobs"):
    if (_path := str(Path(__file__).resolve().parents[1] / _folder)) not in sys.path:
        sys.path.append(_path)
