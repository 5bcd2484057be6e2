"""Makes the FeedSetup of a test's feed with the local profile, as the DAG files do."""

from __future__ import annotations

from testkit.dag_tasks import setup_of as setup_of
