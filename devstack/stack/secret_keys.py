"""Keys that Airflow's parts share. Made once per stack, so that a restart reads what it wrote before."""

import base64
import json
import os
from dataclasses import asdict, dataclass

from devstack.stack.layout import Layout

KEY_BYTES = 32


@dataclass(frozen=True)
class SecretKeys:
    fernet_key: str
    jwt_secret: str
    api_secret_key: str


def new_key() -> str:
    return base64.urlsafe_b64encode(os.urandom(KEY_BYTES)).decode()


def load_or_make(layout: Layout) -> SecretKeys:
    path = layout.airflow_home / "keys.json"
    if path.exists():
        return SecretKeys(**json.loads(path.read_text()))
    keys = SecretKeys(new_key(), new_key(), new_key())
    new = path.with_suffix(".new")
    new.touch(mode=0o600)
    new.write_text(json.dumps(asdict(keys), indent=1) + "\n")
    new.replace(path)
    return keys
