"""Finds the command-line tools that tests run."""

from __future__ import annotations

import os
import shutil

import pytest


def require(tool: str, how: str) -> str:
    """The path of a tool. If it is missing, the test is skipped, and in CI it fails. `how`: how to install the tool."""
    path = shutil.which(tool)
    if path is None:
        text = f"the tool {tool} is not installed: {how}"
        if os.environ.get("CI"):
            pytest.fail(text)
        pytest.skip(text)
    return path


def require_gcloud() -> str:
    return require("gcloud", "https://cloud.google.com/sdk/docs/install")


def require_terraform() -> str:
    return require("terraform", "https://developer.hashicorp.com/terraform/install")
