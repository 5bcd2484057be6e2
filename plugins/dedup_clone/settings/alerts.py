"""Who is told of incidents: the log always, and the notifiers that the profile names. No secret is in a file."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from dedup_clone.settings.identifiers import ConnectionId
from dedup_clone.settings.strict_yaml import StrictModel

ClassPath = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$")]


class NotifierSettings(StrictModel):
    """Any Airflow notifier, such as airflow.providers.smtp.notifications.smtp.SmtpNotifier.

    `arguments` go to its constructor; those that the class templates may use `{{ alert.title }}`, `{{ alert.text }}`,
    `{{ alert.html }}`, `{{ alert.feed }}` and so on.
    """

    class_path: ClassPath
    arguments: dict[str, str | int | float | bool | list[str] | None] = Field(default_factory=dict)


class AlertSettings(StrictModel):
    """`look_every_minutes`: how often the watchdog judges every feed.

    `runbook`: address of docs/runbook.md as people read it; each alert links to its heading there. `webhooks` are
    Airflow connections: each alert is posted as JSON to their address, with their login.
    """

    look_every_minutes: Annotated[int, Field(ge=1, le=60)] = 5
    runbook: str = "docs/runbook.md"
    webhooks: tuple[ConnectionId, ...] = ()
    notifiers: tuple[NotifierSettings, ...] = ()
