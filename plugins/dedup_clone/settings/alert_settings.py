"""The profile's section `alerts`: who is notified of incidents, besides the log. It contains no secrets."""

from __future__ import annotations

from typing import Annotated

from pydantic import AliasChoices, Field

from dedup_clone.settings.identifiers import ConnectionId
from dedup_clone.settings.strict_yaml import StrictModel

ClassPath = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$")]


class NotifierSettings(StrictModel):
    """An Airflow notifier that gets each alert, such as airflow.providers.smtp.notifications.smtp.SmtpNotifier.

    `arguments`: those of its constructor. An argument that the notifier renders as a template may contain
    `{{ alert.title }}`, `{{ alert.text }}`, `{{ alert.html }}`, `{{ alert.feed }}` and so on.
    """

    class_path: ClassPath
    arguments: dict[str, str | int | float | bool | list[str] | None] = Field(default_factory=dict)


class AlertSettings(StrictModel):
    """`check_interval_minutes`: interval of the watchdog's checks (deprecated name: `look_every_minutes`).

    `runbook`: where people read docs/runbook.md; each alert links to its section. `webhooks`: Airflow connections;
    each alert is posted as JSON to their addresses, with their logins.
    """

    check_interval_minutes: Annotated[
        int, Field(ge=1, le=60, validation_alias=AliasChoices("check_interval_minutes", "look_every_minutes"))
    ] = 5
    runbook: str = "docs/runbook.md"
    webhooks: tuple[ConnectionId, ...] = ()
    notifiers: tuple[NotifierSettings, ...] = ()
