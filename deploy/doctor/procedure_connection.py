"""Checks BigQuery's connection to Spark, which runner `bigquery_procedure` needs, and the roles for using it."""

from __future__ import annotations

from collections.abc import Iterator

from dedup_clone.settings.spark_settings import Runner
from deploy.doctor.finding import Finding, Level, LiveEnvironment, advice_after, grant_to_user, ok
from deploy.doctor.google_api import ApiError
from deploy.doctor.iam_policies import WITH_CONDITIONS, bucket_name, bucket_policy, members_with, project_policy
from deploy.grants import Bucket, Principal, Resource

# Creating a procedure with the connection requires `bigquery.connections.delegate`, which these two roles have.
DELEGATING_ROLES = ("roles/bigquery.connectionAdmin", "roles/bigquery.admin")


def check_connection(live: LiveEnvironment) -> Iterator[Finding]:
    """Findings about the connection; none if it is not set, or if nothing names the runner `bigquery_procedure`."""
    path = live.profile.spark.procedure_connection
    if Runner.BIGQUERY_PROCEDURE not in live.runners or path is None:
        return
    project, location, name = path.split(".")
    url = f"https://bigqueryconnection.googleapis.com/v1/projects/{project}/locations/{location}/connections/{name}"
    create = f"bq mk --connection --connection_type=SPARK --project_id={project} --location={location} {name}"
    try:
        spark = live.google.get(url).get("spark")
        policies = [live.google.read_by_post(f"{url}:getIamPolicy", WITH_CONDITIONS), project_policy(live, project)]
    except ApiError as error:
        roles = ("roles/viewer", "roles/iam.securityReviewer")
        grant = "\n".join(grant_to_user(project, role) for role in roles)
        command = advice_after(error, if_refused=grant, if_missing=create)
        yield Finding(Level.FAIL, "connection", f"[{path}] or its policy cannot be read, {error}", command)
        return
    if spark is None:
        text = f"[{path}] is a connection to something else, expected one to Apache Spark: make one under another name."
        yield Finding(Level.FAIL, "connection", text, f"{create}_spark")
        return
    airflow = f"serviceAccount:{live.airflow_environment.airflow}"
    if not any(airflow in members_with(policy, *DELEGATING_ROLES) for policy in policies):
        text = f"[{airflow}] lacks [roles/bigquery.connectionAdmin] on [{path}]: it cannot create the procedure."
        command = f"(in the console: BigQuery, Connections, {name}, Share; bq cannot grant roles on connections)"
        yield Finding(Level.FAIL, "connection", text, command)
        return
    missing = list(_missing_bucket_roles(live, spark.get("serviceAccountId", "")))
    yield from missing or [ok("connection", f"[{path}] exists, and both accounts have what they need.")]


def _missing_bucket_roles(live: LiveEnvironment, account: str) -> Iterator[Finding]:
    """A finding for each role on a bucket that the connection's account lacks.

    A procedure runs as this account, so it needs the roles of the Spark account, which runs batches.
    """
    for grant in live.grants:
        if grant.who is not Principal.SPARK or grant.place not in (Resource.LANDING, Resource.STATE):
            continue
        bucket = bucket_name(live, Bucket(grant.place.value))
        if f"serviceAccount:{account}" not in members_with(bucket_policy(live, str(bucket)), grant.role):
            text = f"the connection's account [{account}] lacks [{grant.role}] on {grant.place}. "
            text += f"Why it needs the role: {grant.why}."
            command = f"gcloud storage buckets add-iam-policy-binding gs://{bucket} "
            command += f"--member=serviceAccount:{account} --role={grant.role}"
            yield Finding(Level.FAIL, "connection", text, command)
