"""Names and logins of the local stack, the same on every machine."""

PROJECT_ID = "local-dev"
LANDING_BUCKET = "landing"
STATE_BUCKET = "state"
BUCKETS = (LANDING_BUCKET, STATE_BUCKET)
DATASET = "warehouse"
LOCATION = "US"

AIRFLOW_USER = "admin"
# Local use only: the stack listens on 127.0.0.1 and nowhere else.
LOGINS = {"admin": "admin", "vera": "vera"}
ROLES = "admin:admin,vera:viewer"
AIRFLOW_PASSWORD = LOGINS[AIRFLOW_USER]
