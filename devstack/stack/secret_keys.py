"""Makes the secret keys that Airflow's parts share. A stack keeps its keys, so encrypted values survive a restart."""

import base64
import json
import os
from dataclasses import asdict, dataclass

from devstack.stack import client_config
from devstack.stack.layout import Layout

KEY_BYTES = 32


@dataclass(frozen=True)
class SecretKeys:
    """Airflow's secrets. `fernet_key`: encrypts connections. `jwt_secret`, `api_secret_key`: sign logins."""

    fernet_key: str
    jwt_secret: str
    api_secret_key: str


def new_key() -> str:
    """A new random key of KEY_BYTES bytes, in URL-safe Base64."""
    return base64.urlsafe_b64encode(os.urandom(KEY_BYTES)).decode()


def load_or_make(layout: Layout) -> SecretKeys:
    """The stack's keys, which are made and stored at the first call."""
    path = layout.airflow_home / "keys.json"
    if path.exists():
        return SecretKeys(**json.loads(path.read_text()))
    keys = SecretKeys(new_key(), new_key(), new_key())
    client_config.write_file(path, json.dumps(asdict(keys), indent=1) + "\n")
    return keys
