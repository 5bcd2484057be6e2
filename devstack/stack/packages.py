"""Finds Python packages that contain binaries which the stack starts."""

import importlib.util
from pathlib import Path

from devstack.stack.stack_errors import StackError


def folder_of(module: str, package: str) -> Path:
    """The folder of an installed module. Raises StackError if it is not installed.

    `package`: the name of the module's package in the requirements files, for the error's message.
    """
    found = importlib.util.find_spec(module)
    if found is None or found.origin is None:
        raise StackError(f"The package {package} is missing from the environment: run `make setup`.")
    return Path(found.origin).parent
