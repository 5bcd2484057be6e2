"""Reads the shell commands that docs/google-cloud.md shows."""

from __future__ import annotations

import re
from collections.abc import Iterator

from deploy.environment_settings import REPOSITORY

PAGE = (REPOSITORY / "docs" / "google-cloud.md").read_text()


def commands(text: str = PAGE) -> Iterator[str]:
    """The commands in a page's Bash blocks, each in one line, without comments."""
    for block in re.findall(r"```bash\n(.*?)```", text, re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            if not line.startswith("#"):
                yield " ".join(line.partition(" #")[0].split())
