"""Commands about feeds and the project on Google Cloud: `python -m deploy --help`. They are not part of a release.

They use the sources in plugins/ and spark_jobs/, which are not installed but imported from there, as in Airflow.
"""

import sys
from pathlib import Path

for _folder in ("plugins", "spark_jobs"):
    if (_sources := str(Path(__file__).resolve().parents[1] / _folder)) not in sys.path:
        sys.path.append(_sources)
