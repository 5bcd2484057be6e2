"""A notifier that appends each alert to a file, so that tests can read the alerts in their order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from airflow.sdk import BaseNotifier

CLASS_PATH = "tests.stack.alert_file.FileNotifier"


class FileNotifier(BaseNotifier):
    """As every notifier of a profile, it runs in Airflow's workers and in its triggerer."""

    template_fields = ("path",)

    def __init__(self, path: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.path = path

    def notify(self, context: Any) -> None:
        alert = context["alert"]
        line = json.dumps({"feed": alert.feed, "title": alert.title, "text": alert.text})
        with Path(self.path).open("a") as file:
            file.write(f"{line}\n")


def alert_titles(path: Path, feed: str) -> list[str]:
    """The titles of the alerts of a feed, without the feed's name."""
    lines = path.read_text().splitlines() if path.exists() else []
    alerts = [json.loads(line) for line in lines]
    return [a["title"].removeprefix(f"[{feed}] ") for a in alerts if a["feed"] == feed]
