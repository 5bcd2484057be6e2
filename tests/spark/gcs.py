"""An emulated Cloud Storage on a free port of 127.0.0.1, for as long as a `with` block lasts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from google.auth.credentials import AnonymousCredentials
from google.cloud.storage import Client

from tests.processes import start_fake_gcs


@contextmanager
def fake_gcs(root: Path, *buckets: str, in_memory: bool = True) -> Iterator[str]:
    """Yields `http://host:port`; the buckets exist. Many large objects do not belong in memory."""
    with start_fake_gcs(root, in_memory=in_memory) as address:
        url = f"http://{address}"
        anonymous = AnonymousCredentials()  # type: ignore[no-untyped-call]
        client = Client(project="local", credentials=anonymous, client_options={"api_endpoint": url})
        for bucket in buckets:
            client.create_bucket(bucket)
        yield url
