"""Checks what the runners of the feeds need: settings, a cluster, a connection of BigQuery, uploaded Spark code.

network.py checks what batches of Dataproc Serverless need of the network.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from dedup_clone.settings.spark_settings import Runner
from deploy.doctor.finding import Finding, LiveEnvironment, fail, grant_to_user, ok, reading
from deploy.doctor.iam_policies import bucket_policy, members_with, policy_at, project_policy
from deploy.release.release_content import SPARK_CODE_FILE
from deploy.terraform_lists import Bucket, Principal, Resource

NODE_AGENT = "gcp-sa-dataprocrmnode.iam.gserviceaccount.com"
NODE_AGENT_ROLE = "roles/dataprocrm.nodeServiceAgent"
# A cluster also accepts jobs while it is updated, and after an update that failed.
USABLE = frozenset({"RUNNING", "UPDATING", "ERROR_DUE_TO_UPDATE"})
# Creating a procedure with the connection requires `bigquery.connections.delegate`, which these two roles have.
DELEGATING_ROLES = ("roles/bigquery.connectionAdmin", "roles/bigquery.admin")


def check_runners(live: LiveEnvironment) -> Iterator[Finding]:
    for runner in sorted(live.runners):
        missing = live.profile.spark.missing_setting(runner)
        if runner is Runner.LOCAL:
            text = "the profile or a feed runs Spark in Airflow's workers, but Managed Airflow has no Java."
            yield fail("runner", text, "(set `runner: serverless` in the profile or the feed's file)")
        elif missing is not None:
            feeds = ", ".join(feed.feed for feed in live.feeds if feed.runner is runner)
            text = f"feeds [{feeds}] have runner [{runner}], which needs [spark.{missing}] in the profile."
            command = f"(set `spark.{missing}` in the profile, or another `runner` in the feeds' files)"
            yield fail("runner", text, command)


def check_cluster(live: LiveEnvironment) -> Iterator[Finding]:
    project, spark = live.project, live.profile.spark
    name = spark.cluster
    if Runner.CLUSTER not in live.runners or name is None:
        return
    url = f"https://dataproc.googleapis.com/v1/projects/{project}/regions/{spark.region}/clusters/{name}"
    place = f"--region={spark.region} --project={project}"
    missing = f"gcloud dataproc clusters list {place}\n(correct `spark.cluster` in the profile)"
    viewer = grant_to_user(project, "roles/dataproc.viewer")
    with reading("cluster", f"[{name}] in [{spark.region}]", if_refused=viewer, if_missing=missing):
        state = live.google.get(url).get("status", {}).get("state")
    if state in USABLE:
        yield ok("cluster", f"[{name}] is [{state}].")
        return
    verb = "start" if state == "STOPPED" else "describe"
    text = f"[{name}] is [{state}], expected [RUNNING]."
    yield fail("cluster", text, f"gcloud dataproc clusters {verb} {name} {place}")


def check_runtime_3(live: LiveEnvironment) -> Iterator[Finding]:
    """Batches of Dataproc Serverless runtime 3.0 need a service agent with its role.

    Google creates the agent and grants the role when they are first needed. An agent that `identity create` makes has
    no role (source: IAM, "Create and grant roles to service agents"), so the command also grants the role.
    """
    project, spark = live.project, live.profile.spark
    if Runner.SERVERLESS not in live.runners or not spark.has_runtime_3:
        return
    if any(NODE_AGENT in member for member in members_with(project_policy(live), NODE_AGENT_ROLE)):
        yield ok("runtime 3.0", "the service agent for its batches has the role that it needs.")
        return
    text = f"no service agent [service-NUMBER@{NODE_AGENT}] has [{NODE_AGENT_ROLE}] on the project: batches of "
    text += f"runtime [{spark.runtime_version}] get no machines."
    number = f"$(gcloud projects describe {project} --format='value(projectNumber)')"
    command = (
        f"gcloud beta services identity create --service=dataprocrm.googleapis.com --project={project} && "
        f"gcloud projects add-iam-policy-binding {project} --condition=None "
        f"--member=serviceAccount:service-{number}@{NODE_AGENT} --role={NODE_AGENT_ROLE}"
    )
    yield fail("runtime 3.0", text, command)


def check_spark_code(live: LiveEnvironment) -> Iterator[Finding]:
    """Whether the file by which the DAGs find the Spark code is there, and the code that it names."""
    record = f"gs://{live.airflow_environment.bucket}/{SPARK_CODE_FILE}"
    named = _object(live, record, alt="media")
    for part in ("main", "archive"):
        _object(live, named.get(part, f"{record}#{part}"))
    yield ok("Spark code", "a release has uploaded it.")


def _object(live: LiveEnvironment, uri: str, **parameters: str) -> dict[str, Any]:
    """An object of Cloud Storage; with `alt="media"` its content. Raises CheckEnded."""
    bucket, _, name = uri.removeprefix("gs://").partition("/")
    viewer = f"gcloud storage buckets add-iam-policy-binding gs://{bucket} --member=user:YOU "
    viewer += "--role=roles/storage.objectViewer"
    url = f"https://storage.googleapis.com/storage/v1/b/{bucket}/o/{quote(name, safe='')}"
    with reading("Spark code", f"[{uri}]", if_refused=viewer, if_missing="make deploy"):
        found = live.google.get(url, **parameters)
    return found


def check_connection(live: LiveEnvironment) -> Iterator[Finding]:
    """Findings about the connection; none if it is not set, or if nothing names the runner `bigquery_procedure`."""
    path = live.profile.spark.procedure_connection
    if Runner.BIGQUERY_PROCEDURE not in live.runners or path is None:
        return
    project, location, name = path.split(".")
    url = f"https://bigqueryconnection.googleapis.com/v1/projects/{project}/locations/{location}/connections/{name}"
    create = f"bq mk --connection --connection_type=SPARK --project_id={project} --location={location} {name}"
    viewer = "\n".join(grant_to_user(project, role) for role in ("roles/viewer", "roles/iam.securityReviewer"))
    with reading("connection", f"[{path}] or its policy", if_refused=viewer, if_missing=create):
        spark = live.google.get(url).get("spark")
        policies = [policy_at(live, url), project_policy(live, project)]
    if spark is None:
        text = f"[{path}] is a connection to something else, expected one to Apache Spark: make one under another name."
        yield fail("connection", text, f"{create}_spark")
        return
    airflow = f"serviceAccount:{live.airflow_environment.airflow}"
    if not any(airflow in members_with(policy, *DELEGATING_ROLES) for policy in policies):
        text = f"[{airflow}] lacks [roles/bigquery.connectionAdmin] on [{path}]: it cannot create the procedure."
        command = f"(in the console: BigQuery, Connections, {name}, Share; bq cannot grant roles on connections)"
        yield fail("connection", text, command)
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
        bucket = live.buckets[Bucket(grant.place.value)]
        if f"serviceAccount:{account}" not in members_with(bucket_policy(live, str(bucket)), grant.role):
            text = f"the connection's account [{account}] lacks [{grant.role}] on {grant.place}. "
            text += f"Why it needs the role: {grant.why}."
            command = f"gcloud storage buckets add-iam-policy-binding gs://{bucket} "
            command += f"--member=serviceAccount:{account} --role={grant.role}"
            yield fail("connection", text, command)
