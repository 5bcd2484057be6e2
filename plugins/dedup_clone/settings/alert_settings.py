"""Models of a profile's section `alerts`: how often feeds are checked, and who is notified of incidents.

The section contains no secrets: arguments of notifiers name Airflow connections, which have them.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from dedup_clone.settings.strict_yaml import StrictModel

ClassPath = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$")]
Argument = str | int | float | bool | list[str] | dict[str, str] | None


class NotifierSettings(StrictModel):
    """An Airflow notifier that gets each alert, such as airflow.providers.smtp.notifications.smtp.SmtpNotifier.

    `arguments`: the arguments of the notifier's constructor, such as its connection. Those that the notifier renders as
    templates may contain fields of the alert, such as `{{ alert.title }}`, `{{ alert.text }}` and `{{ alert.feed }}`.
    The message itself need not be given for the notifiers of docs/alerts-and-metrics.md.
    """

    class_path: ClassPath
    arguments: dict[str, Argument] = Field(default_factory=dict)


class AlertSettings(StrictModel):
    """The section `alerts`.

    `check_interval_minutes`: interval of the watchdog's checks. `runbook`: the
    address of docs/runbook.md; each alert links to the section on its incident.
    """

    removed_keys: ClassVar[dict[str, str]] = {
        "webhooks": "Name a notifier for each connection in [alerts.notifiers] (docs/alerts-and-metrics.md): Slack's "
        "or PagerDuty's, or Apprise's for any other address."
    }

    check_interval_minutes: Annotated[int, Field(ge=1, le=60)] = 5
    runbook: str = "docs/runbook.md"
    notifiers: tuple[NotifierSettings, ...] = ()
