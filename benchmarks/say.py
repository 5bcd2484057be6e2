"""Lines of progress, on stderr: stdout is for tables."""

from __future__ import annotations

import sys


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
