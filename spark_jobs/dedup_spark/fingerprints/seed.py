"""Reads the secret seed of a feed's hashes: a random number that the feed's first job writes to the state bucket.

Whoever knows the seed can search for keys whose hashes agree. It is therefore written to no log and no other object.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from hashlib import blake2b

from dedup_clone.contract.errors import ContractViolation
from dedup_spark import storage

_BYTES = 32


@dataclass(frozen=True)
class Seed:
    """The seed. Its `repr` does not show the secret."""

    secret: bytes = field(repr=False)

    @property
    def public_id(self) -> int:
        """A 64-bit number that tells seeds apart, and from which the secret cannot be computed."""
        return int.from_bytes(blake2b(b"public id", key=self.secret, digest_size=8).digest(), "big")


def read_seed(uri: str) -> Seed:
    """Return the feed's seed; create it if there is none. Raises ContractViolation if the object is damaged."""
    storage.create_text(uri, secrets.token_hex(_BYTES))
    try:
        secret = bytes.fromhex(storage.read_text(uri))
    except ValueError:
        secret = b""
    if len(secret) != _BYTES:
        raise ContractViolation(
            f"Fingerprint seed [{uri}] is damaged: found [{len(secret)}] bytes in hexadecimal, expected [{_BYTES}]. "
            f"Restore the object from its versions, then retry (docs/runbook.md, the seed of erasures has changed)."
        )
    return Seed(secret)
