"""Reads and writes Cloud Storage objects by the JSON API, and finds the objects that wildcards and manifests name.

The server is an emulator, which needs no credentials.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

import urllib3

from bigquery_standin.bigquery_errors import BackendError, Invalid, NotFound

MAXIMUM_URIS = 10_000  # in the configuration of one job
HOST_VARIABLE = "STORAGE_EMULATOR_HOST"


@dataclass(frozen=True, order=True)
class SourceFile:
    """One object that a job reads."""

    uri: str
    bucket: str
    name: str
    size: int


class ObjectStore:
    """A client of the emulated Cloud Storage, whose address is in STORAGE_EMULATOR_HOST."""

    def __init__(self) -> None:
        self._pool = urllib3.PoolManager(
            maxsize=8, retries=urllib3.Retry(3, backoff_factor=0.1, status_forcelist=[503])
        )

    @property
    def url(self) -> str:
        """The server's http://host:port. Raises BackendError if there is none."""
        address = os.environ.get(HOST_VARIABLE)
        if not address:
            raise BackendError(
                f"There is no object store: {HOST_VARIABLE} is not set, expected its http://host:port. "
                "Start the stand-in with it."
            )
        return (address if "://" in address else f"http://{address}").rstrip("/")

    def read(self, file: SourceFile) -> bytes:
        return self._request("GET", self._object_path(file.bucket, file.name) + "?alt=media", file.uri)

    def write(self, uri: str, content: bytes) -> None:
        """Creates or replaces an object."""
        bucket, name = split_uri(uri)
        query = urlencode({"uploadType": "media", "name": name})
        self._request("POST", f"/upload/storage/v1/b/{quote(bucket)}/o?{query}", uri, content)

    def resolve(self, uris: Sequence[str], is_manifest: bool) -> list[SourceFile]:
        """The files of a job, at least one, sorted by URI. `is_manifest`: whether the URIs are of manifests.

        A manifest is a text object with the URI of a file in each line. Raises NotFound for a URI without a match,
        Invalid for a wrong URI or manifest, BackendError if the server answers with another error or not at all.
        """
        if not uris:
            raise Invalid("Required parameter is missing: sourceUris needs at least one gs:// URI.")
        if is_manifest:
            manifests = uris
            uris = [line for manifest in manifests for line in self._manifest_lines(manifest)]
            if not uris:
                raise Invalid(f"Manifest [{', '.join(manifests)}] names no file.")
        files = {file.uri: file for uri in uris for file in self._match(uri)}
        return sorted(files.values())

    def _manifest_lines(self, manifest: str) -> Iterator[str]:
        bucket, _ = split_uri(manifest)
        try:
            text = self.read(self._stat(manifest)).decode()
        except UnicodeDecodeError as error:
            raise Invalid(f"Manifest {manifest} is not UTF-8 text: it must name a file in each line.") from error
        for line in filter(None, (line.strip() for line in text.splitlines())):
            if "*" in line:
                raise Invalid(f"Manifest {manifest} contains a wildcard [{line}]: name each file.")
            if split_uri(line)[0] != bucket:
                raise Invalid(f"Manifest {manifest} names [{line}], expected files of its own bucket [{bucket}].")
            yield line

    def _match(self, uri: str) -> list[SourceFile]:
        bucket, name = split_uri(uri)
        if "*" not in uri:
            return [self._stat(uri)]
        head, _, tail = name.partition("*")
        if "*" in tail or "*" in bucket:
            raise Invalid(f"Source URI [{uri}] has more than one wildcard or one in the bucket's name: use one [*].")
        matches = [
            file
            for file in self._list(bucket, head)
            if file.name.endswith(tail) and len(file.name) >= len(head) + len(tail)
        ]
        if not matches:
            raise NotFound(f"Not found: Uris {uri}")
        return matches

    def _stat(self, uri: str) -> SourceFile:
        bucket, name = split_uri(uri)
        return _source_file(bucket, json.loads(self._request("GET", self._object_path(bucket, name), uri)))

    def _list(self, bucket: str, prefix: str) -> Iterator[SourceFile]:
        page: dict[str, str] = {}
        while True:
            query = urlencode({"prefix": prefix, **page})
            answer = json.loads(
                self._request("GET", f"/storage/v1/b/{quote(bucket)}/o?{query}", f"gs://{bucket}/{prefix}*")
            )
            for item in answer.get("items", ()):
                if not item["name"].endswith("/"):
                    yield _source_file(bucket, item)
            if not answer.get("nextPageToken"):
                return
            page = {"pageToken": answer["nextPageToken"]}

    @staticmethod
    def _object_path(bucket: str, name: str) -> str:
        return f"/storage/v1/b/{quote(bucket)}/o/{quote(name, safe='')}"

    def _request(self, method: str, path: str, uri: str, content: bytes | None = None) -> bytes:
        """The body of the server's answer. `uri`: what is read or written, for error messages."""
        verb = "read" if method == "GET" else "write"
        url = self.url
        headers = {"Content-Type": "application/octet-stream"} if content is not None else None
        try:
            response = self._pool.request(method, url + path, body=content, headers=headers)
        except urllib3.exceptions.HTTPError as error:
            raise BackendError(f"Cannot {verb} {uri} at the object store at {url}: {error}") from error
        if response.status == 404:
            raise NotFound(f"Not found: URI {uri}")
        if response.status != 200:
            raise BackendError(f"Cannot {verb} {uri}: the object store answered [{response.status}], expected [200].")
        return response.data


def split_uri(uri: str) -> tuple[str, str]:
    """The bucket and the name of the object. Raises Invalid if the URI is not gs://BUCKET/NAME."""
    bucket, _, name = uri.removeprefix("gs://").partition("/")
    if not uri.startswith("gs://") or not bucket or not name or "#" in name:
        raise Invalid(
            f"URI [{uri}] is not a Google Cloud Storage object: expected gs://BUCKET/NAME without a generation."
        )
    return bucket, name


def _source_file(bucket: str, item: dict[str, Any]) -> SourceFile:
    return SourceFile(f"gs://{bucket}/{item['name']}", bucket, item["name"], int(item["size"]))
