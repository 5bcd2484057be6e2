"""spark-submit dedup_snapshot.py --request URI: deduplicates the attempt's deliveries into one candidate.

Exit code 0: `candidate.json` exists. Otherwise the log ends with what failed and what to do; nothing was published.
"""

from __future__ import annotations

import sys
from pathlib import Path

# In a source tree dedup_clone.contract is in the folder plugins; on a cluster it comes with --py-files.
_PLUGINS = Path(__file__).resolve().parent.parent / "plugins"
if _PLUGINS.is_dir():
    sys.path.append(str(_PLUGINS))

from dedup_spark.command import main  # noqa: E402 - the path above comes first

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
