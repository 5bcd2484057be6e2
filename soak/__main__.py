"""Runs `python -m soak`, with the arguments that soak/command.py defines, from a checkout."""

import sys
from pathlib import Path

_CHECKOUT = Path.cwd() if (Path.cwd() / "soak").is_dir() else Path(__file__).resolve().parents[1]
for _folder in ("spark_jobs", "plugins"):
    sys.path.insert(0, str(_CHECKOUT / _folder))

from soak.command import main  # noqa: E402 - needs the paths that are added above

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
