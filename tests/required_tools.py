"""What a test does if its tool is not installed: it fails in CI, and is skipped elsewhere."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def lacks(tool: str, how_to_install: str) -> NoReturn:
    text = f"{tool} is missing: {how_to_install}"
    if os.environ.get("CI"):
        pytest.fail(text)
    pytest.skip(text)
