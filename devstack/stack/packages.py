"""Finds Python packages that contain binaries which the stack starts."""

import importlib.util
from pathlib import Path

from devstack.stack.stack_errors import StackError


def folder_of(module: str, package: str) -> Path:
    """The folder of an installed module. `package` is its name in the lock. Raises StackError."""
    found = importlib.util.find_spec(module)
    if found is None or found.origin is None:
        raise StackError(f"The package {package} is missing from the environment: run `make setup`.")
    return Path(found.origin).parent
