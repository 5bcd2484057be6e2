"""Opens the services of feeds for commands, with the user's own credentials.

If STORAGE_EMULATOR_HOST or BIGQUERY_EMULATOR_HOST is set, it names a local server that is called instead of its
service, without credentials.
"""

from __future__ import annotations

import os
from pathlib import Path

from dedup_clone.publish.services import Clients, Services
from dedup_clone.settings.deployment import Deployment
from dedup_clone.settings.feed import Feed, read_feed
from deploy.environment_settings import REPOSITORY, read_profile


def open_live_clients(profile: Deployment) -> Clients:
    """Open Google's clients. Raises GoogleAuthError without a login, unless both services are local."""
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import bigquery, storage

    gcs = storage.Client(project=profile.project)  # calls a local server without credentials by itself
    is_local = os.environ.get("BIGQUERY_EMULATOR_HOST")
    credentials = AnonymousCredentials() if is_local else None  # type: ignore[no-untyped-call]
    client = bigquery.Client(project=profile.project, location=profile.location, credentials=credentials)
    return Clients.of(profile, gcs, client, REPOSITORY / "sql")


def live_services(clients: Clients, feed: Feed) -> Services:
    """The feed's services, for steps that ask neither who publishes the feed nor whether a run is alive.

    A command is no Airflow environment: a feed that an environment publishes is refused, and `is_running` is false
    for every run, because there is no Airflow to ask.
    """
    return clients.of_feed(feed, environment="", is_running=lambda dag_id, run_id: False)


def feed_services(name: str, dags: Path) -> Services:
    """The services of one feed in the profile that DEDUP_CLONE_PROFILE names. Raises ConfigurationError."""
    return live_services(open_live_clients(read_profile(dags)), read_feed(dags / "feeds" / f"{name}.yaml"))
