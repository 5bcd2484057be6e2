"""Airflow reads its environment when it is first imported: here it gets an empty home of its own before that."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

_home = tempfile.mkdtemp(prefix="airflow-home-")
atexit.register(shutil.rmtree, _home, ignore_errors=True)

os.environ["AIRFLOW_HOME"] = _home
os.environ["DEDUP_CLONE_PROFILE"] = "local"
os.environ.setdefault("STORAGE_EMULATOR_HOST", "http://127.0.0.1:4443")
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
os.environ["AIRFLOW__LOGGING__LOGGING_LEVEL"] = "ERROR"
