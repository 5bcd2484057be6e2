"""Reads, loses and damages the objects that a feed has in the state bucket, as JSON and by their paths."""

from __future__ import annotations

import json
from typing import Any

from google.cloud.storage import Client

DAMAGE = '{"feed": '  # incomplete JSON


class StateReader:
    """The feed's folder in the state bucket. All names are relative to it, such as `manifests/00000001.json`."""

    def __init__(self, client: Client, bucket: str, feed: str) -> None:
        self._bucket = client.bucket(bucket)
        self.folder = f"{feed}/"

    def names(self, prefix: str = "") -> list[str]:
        """The names of the objects that begin with `prefix`, sorted."""
        found = self._bucket.client.list_blobs(self._bucket, prefix=f"{self.folder}{prefix}")
        return sorted(blob.name.removeprefix(self.folder) for blob in found)

    def subfolders(self, folder: str) -> list[str]:
        """The names of the folders in `folder`, such as those of attempts in `data`."""
        return sorted({name.split("/")[1] for name in self.names(f"{folder}/") if name.count("/") > 1})

    def generations(self, folder: str) -> list[int]:
        """The generations in the names of objects or folders in `folder`, sorted."""
        numbers = {name.split("/")[1][:8] for name in self.names(f"{folder}/")}
        return sorted(int(number) for number in numbers if number.isdigit())

    def deliveries(self, folder: str) -> list[str]:
        """The names of the deliveries with a record in `folder`: arrivals, refused or held; oldest snapshot first."""
        names = [name.removeprefix(f"{folder}/").removesuffix(".json") for name in self.names(f"{folder}/")]
        return sorted(names, key=lambda name: tuple(map(int, name.split("-"))))

    def text(self, name: str) -> str | None:
        """The content of an object; None if there is none."""
        blob = self._bucket.get_blob(f"{self.folder}{name}")
        return None if blob is None else blob.download_as_text()

    def find(self, name: str) -> Any:
        """The JSON in an object; None if there is none."""
        text = self.text(name)
        return None if text is None else json.loads(text)

    def read(self, name: str) -> dict[str, Any]:
        found = self.find(name)
        assert isinstance(found, dict), f"{self.folder}{name}"
        return found

    def write(self, name: str, text: str) -> None:
        self._bucket.blob(f"{self.folder}{name}").upload_from_string(text)

    def lose(self, *prefixes: str) -> None:
        """Delete the objects whose names begin with one of these."""
        for name in (name for prefix in prefixes for name in self.names(prefix)):
            self._bucket.blob(f"{self.folder}{name}").delete()

    def damage(self, *prefixes: str) -> None:
        """Overwrite the objects whose names begin with one of these."""
        for prefix in prefixes:
            names = self.names(prefix)
            assert names, prefix
            for name in names:
                self.write(name, DAMAGE)

    @property
    def current(self) -> dict[str, Any]:
        """CURRENT; empty before the first run."""
        return self.find("CURRENT") or {}

    @property
    def generation(self) -> int | None:
        """The committed generation; None before the first publish."""
        return self.current.get("generation")

    @property
    def lease(self) -> dict[str, Any] | None:
        """The run that holds the lease; None if no run does."""
        return self.current.get("intent")

    def manifest(self, generation: int | None = None) -> dict[str, Any]:
        """The manifest of a generation, by default of the live one."""
        return self.read(f"manifests/{generation or self.generation or 0:08}.json")

    def ledger(self) -> list[dict[str, Any]]:
        """The records of all ended attempts, oldest generation first."""
        return [self.read(name) for name in self.names("ledger/")]

    def outcomes(self) -> list[tuple[int, str]]:
        """Generation and outcome of each ended attempt, oldest first."""
        return [(record["generation"], record["outcome"]) for record in self.ledger()]

    def checks(self, attempt: str, phase: str = "before") -> dict[str, dict[str, Any]]:
        """The results of the attempt's checks `before` or `after` the swap, by the name of the check."""
        items = self.read(f"attempts/{attempt}/checks_{phase}.json")["items"]
        return {item["check"]: item for item in items}
