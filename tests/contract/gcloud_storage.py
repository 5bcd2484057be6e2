"""Fakes the commands of `gcloud storage` that a release runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from google.cloud import storage


class Commands:
    """Carries out `gcloud storage cp --recursive` and `rm` with the client library.

    `run`: the commands so far. `fail_at`: the number of a command, from 0, that fails; None if none fails.
    """

    def __init__(self, client: storage.Client) -> None:
        self._client = client
        self.run: list[list[str]] = []
        self.fail_at: int | None = None

    def __call__(self, command: Sequence[str], text: str = "") -> None:
        if self.fail_at == len(self.run):
            raise ConnectionError("the line is dead")
        self.run.append(list(command))
        if list(command[:4]) == ["gcloud", "storage", "cp", "--recursive"]:
            *sources, destination = command[4:]
            self._copy([Path(source) for source in sources], destination)
        else:
            assert list(command) == ["gcloud", "storage", "rm", "--read-paths-from-stdin"]
            for uri in text.split():
                bucket, _, name = uri.removeprefix("gs://").partition("/")
                self._client.bucket(bucket).blob(name).delete()

    def _copy(self, sources: list[Path], destination: str) -> None:
        bucket = self._client.bucket(destination.removeprefix("gs://").rstrip("/"))
        for source in sources:
            for path in [source, *source.rglob("*")]:
                if path.is_file():
                    bucket.blob(path.relative_to(source.parent).as_posix()).upload_from_filename(str(path))
