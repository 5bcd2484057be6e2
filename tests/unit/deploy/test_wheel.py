"""`pip install .`: an image that installs plugins with pip gets the package, whose entry point registers the page."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "requirements/composer.txt")

LOAD_PLUGIN = """
from importlib.metadata import entry_points, version
from pathlib import Path
import dedup_clone
(found,) = [point for point in entry_points(group="airflow.plugins") if point.dist.name == "dedup-clone"]
assert version("dedup-clone") == dedup_clone.__version__
static = Path(dedup_clone.__file__).parent / "page" / "static"
print(found.load().name, dedup_clone.__file__, (static / "index.html").exists(), any(static.glob("vendor/*/*.js")))
"""


def test_a_wheel_registers_the_page_with_airflow(tmp_path: Path) -> None:
    """The wheel is complete: the plugin loads from it alone, with the page's files."""
    source, installed = tmp_path / "source", tmp_path / "installed"
    shutil.copytree(
        REPOSITORY / "plugins", source / "plugins", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
    )
    for name in SOURCES:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / name, source / name)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, "--no-build-isolation", "--target", str(installed), str(source)], check=True)

    environment = {"PYTHONPATH": str(installed), "PATH": "/usr/bin:/bin", "AIRFLOW_HOME": str(tmp_path / "airflow")}
    loaded = subprocess.run(
        [sys.executable, "-c", LOAD_PLUGIN], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    name, module, has_page, has_charts = loaded.stdout.split()[-4:]
    assert (name, has_page, has_charts) == ("snapshots", "True", "True")
    assert Path(module).is_relative_to(installed)
