"""Checks the profile's cluster, what Dataproc Serverless runtime 3.0 needs, and that the Spark code is uploaded."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from dedup_clone.settings.spark_settings import Runner
from deploy.doctor.finding import Finding, Level, LiveEnvironment, advice_after, grant_to_user, ok
from deploy.doctor.google_api import ApiError
from deploy.doctor.iam_policies import members_with, project_policy
from deploy.release.release_content import SPARK_CODE_FILE

NODE_AGENT = "gcp-sa-dataprocrmnode.iam.gserviceaccount.com"
NODE_AGENT_ROLE = "roles/dataprocrm.nodeServiceAgent"
# A cluster also accepts jobs while it is updated, and after an update that failed.
USABLE = frozenset({"RUNNING", "UPDATING", "ERROR_DUE_TO_UPDATE"})


def check_spark(live: LiveEnvironment) -> Iterator[Finding]:
    yield from _cluster(live)
    yield from _runtime_3(live)
    yield from _uploaded_code(live)


def _cluster(live: LiveEnvironment) -> Iterator[Finding]:
    profile, spark = live.profile, live.profile.spark
    name = spark.cluster.name
    if Runner.CLUSTER not in live.runners or name is None:
        return
    url = f"https://dataproc.googleapis.com/v1/projects/{profile.project}/regions/{spark.region}/clusters/{name}"
    place = f"--region={spark.region} --project={profile.project}"
    try:
        state = live.google.get(url).get("status", {}).get("state")
    except ApiError as error:
        text = f"[{name}] in [{spark.region}] cannot be read, {error}"
        if error.status == 404:
            text += ". Correct [spark.cluster.name]."
        viewer = grant_to_user(profile.project, "roles/dataproc.viewer")
        command = advice_after(error, if_refused=viewer, if_missing=f"gcloud dataproc clusters list {place}")
        yield Finding(Level.FAIL, "cluster", text, command)
        return
    if state in USABLE:
        yield ok("cluster", f"[{name}] is [{state}].")
    else:
        text = f"[{name}] is [{state}], expected [RUNNING]."
        verb = "start" if state == "STOPPED" else "describe"
        yield Finding(Level.FAIL, "cluster", text, f"gcloud dataproc clusters {verb} {name} {place}")


def _runtime_3(live: LiveEnvironment) -> Iterator[Finding]:
    """Batches of Dataproc Serverless runtime 3.0 need a service agent with its role.

    Google creates the agent and grants the role when they are first needed. An agent that `identity create` makes has
    no role (source: IAM, "Create and grant roles to service agents"), so the command also grants the role.
    """
    profile = live.profile
    if Runner.SERVERLESS not in live.runners or not profile.spark.has_runtime_3:
        return
    if any(NODE_AGENT in member for member in members_with(project_policy(live), NODE_AGENT_ROLE)):
        yield ok("runtime 3.0", "the service agent for its batches has the role that it needs.")
        return
    text = f"no service agent [service-NUMBER@{NODE_AGENT}] has [{NODE_AGENT_ROLE}] on the project: batches of "
    text += f"runtime [{profile.spark.runtime_version}] get no machines."
    number = f"$(gcloud projects describe {profile.project} --format='value(projectNumber)')"
    command = (
        f"gcloud beta services identity create --service=dataprocrm.googleapis.com --project={profile.project} && "
        f"gcloud projects add-iam-policy-binding {profile.project} --condition=None "
        f"--member=serviceAccount:service-{number}@{NODE_AGENT} --role={NODE_AGENT_ROLE}"
    )
    yield Finding(Level.FAIL, "runtime 3.0", text, command)


def _uploaded_code(live: LiveEnvironment) -> Iterator[Finding]:
    bucket = live.airflow_environment.bucket
    try:
        live.google.get(f"https://storage.googleapis.com/storage/v1/b/{bucket}/o/{quote(SPARK_CODE_FILE, safe='')}")
    except ApiError as error:
        text = f"[gs://{bucket}/{SPARK_CODE_FILE}] cannot be read, {error}. The DAGs find the Spark code by this file."
        allow = f"gcloud storage buckets add-iam-policy-binding gs://{bucket} --member=user:YOU "
        command = advice_after(error, if_refused=f"{allow}--role=roles/storage.objectViewer", if_missing="make deploy")
        yield Finding(Level.FAIL, "Spark code", text, command)
    else:
        yield ok("Spark code", "a release has uploaded it.")
