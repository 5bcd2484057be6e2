"""Models of a profile's section `alerts`: how often feeds are checked, and who is notified of incidents.

The section contains no secrets: it names Airflow connections, which have them.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from dedup_clone.settings.identifiers import ConnectionId
from dedup_clone.settings.strict_yaml import StrictModel

ClassPath = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$")]


class NotifierSettings(StrictModel):
    """An Airflow notifier that gets each alert, such as airflow.providers.smtp.notifications.smtp.SmtpNotifier.

    `arguments`: the arguments of the notifier's constructor. Those that the notifier renders as templates may contain
    fields of the alert, such as `{{ alert.title }}`, `{{ alert.text }}`, `{{ alert.html }}` and `{{ alert.feed }}`.
    """

    class_path: ClassPath
    arguments: dict[str, str | int | float | bool | list[str] | None] = Field(default_factory=dict)


class AlertSettings(StrictModel):
    """The section `alerts`.

    `check_interval_minutes`: interval of the watchdog's checks. `runbook`: the
    address of docs/runbook.md; each alert links to the section on its incident. `webhooks`: Airflow connections; each
    alert is posted as JSON to the address of each connection, with the connection's login.
    """

    check_interval_minutes: Annotated[int, Field(ge=1, le=60)] = 5
    runbook: str = "docs/runbook.md"
    webhooks: tuple[ConnectionId, ...] = ()
    notifiers: tuple[NotifierSettings, ...] = ()
