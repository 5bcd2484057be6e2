"""Opens the services of feeds for commands, with the user's own credentials.

If STORAGE_EMULATOR_HOST or BIGQUERY_EMULATOR_HOST is set, it names a local server that is called instead of its
service, without credentials.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from dedup_clone.publish.services import Services, open_services
from dedup_clone.settings.deployment import Deployment
from dedup_clone.settings.feed import Feed
from dedup_clone.state.store import ObjectStore
from dedup_clone.warehouse.bigquery import Warehouse
from deploy.environment_settings import REPOSITORY


@dataclass(frozen=True)
class LiveClients:
    """The buckets and the warehouse of one profile, shared by the services of all feeds.

    `job_poll_s`: the seconds between two looks at a BigQuery job.
    """

    state: ObjectStore
    landing: ObjectStore
    warehouse: Warehouse
    job_poll_s: float

    def services(self, feed: Feed) -> Services:
        """The feed's services, for steps that ask neither who publishes the feed nor whether a run is alive.

        A command is no Airflow environment: a feed that an environment publishes is refused, and `is_running` is false
        for every run, because there is no Airflow to ask.
        """
        return open_services(
            feed,
            state=self.state,
            landing=self.landing,
            warehouse=self.warehouse,
            job_poll_s=self.job_poll_s,
            environment="",
            is_running=lambda dag_id, run_id: False,
        )


def open_live_clients(profile: Deployment) -> LiveClients:
    """Open Google's clients. Raises GoogleAuthError without a login, unless both services are local."""
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import bigquery, storage

    gcs = storage.Client(project=profile.project)  # calls a local server without credentials by itself
    is_local = os.environ.get("BIGQUERY_EMULATOR_HOST")
    credentials = AnonymousCredentials() if is_local else None  # type: ignore[no-untyped-call]
    client = bigquery.Client(project=profile.project, location=profile.location, credentials=credentials)
    return LiveClients(
        state=ObjectStore(gcs, profile.state_bucket),
        landing=ObjectStore(gcs, profile.landing_bucket),
        warehouse=Warehouse(
            client,
            project=profile.project,
            dataset=profile.dataset,
            location=profile.location,
            sql_folder=REPOSITORY / "sql",
        ),
        job_poll_s=profile.job_poll_interval_s,
    )
