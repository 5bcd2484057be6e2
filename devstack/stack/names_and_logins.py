"""Names the resources of the local stack, and its logins. They are the same on every machine."""

PROJECT_ID = "local-dev"
LANDING_BUCKET = "landing"
STATE_BUCKET = "state"
DATASET = "warehouse"
LOCATION = "US"

PAGE = "plugin/snapshots"  # the page Snapshots, below Airflow's address

AIRFLOW_USER = "admin"
# The logins are no secrets: the stack listens on 127.0.0.1 only.
LOGINS = {"admin": "admin", "vera": "vera"}
AIRFLOW_PASSWORD = LOGINS[AIRFLOW_USER]
