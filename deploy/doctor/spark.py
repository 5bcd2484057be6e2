"""What a runner names: the cluster that is to exist, and the code that a release lays for it."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from dedup_clone.settings.spark import Runner
from deploy.doctor.finding import Finding, Level, Patient, ok
from deploy.doctor.google import Refused
from deploy.release.content import SPARK_CODE_FILE


def check_spark(patient: Patient) -> Iterator[Finding]:
    yield from _cluster(patient)
    yield from _code(patient)


def _cluster(patient: Patient) -> Iterator[Finding]:
    profile, spark = patient.profile, patient.profile.spark
    name = spark.cluster.name
    if profile.runner is not Runner.CLUSTER or name is None:
        return
    url = f"https://dataproc.googleapis.com/v1/projects/{profile.project}/regions/{spark.region}/clusters/{name}"
    place = f"--region={spark.region} --project={profile.project}"
    try:
        state = patient.google.get(url).get("status", {}).get("state")
    except Refused as refused:
        text = (
            f"[{name}] in [{spark.region}] cannot be read, {refused}. Without `spark.cluster.name` one is made a run."
        )
        yield Finding(Level.FAIL, "cluster", text, f"gcloud dataproc clusters list {place}")
        return
    if state != "RUNNING":
        text = f"[{name}] is [{state}], expected [RUNNING]."
        yield Finding(Level.FAIL, "cluster", text, f"gcloud dataproc clusters start {name} {place}")
    else:
        yield ok("cluster", f"[{name}] runs.")


def _code(patient: Patient) -> Iterator[Finding]:
    bucket = patient.environment.bucket
    try:
        patient.google.get(f"https://storage.googleapis.com/storage/v1/b/{bucket}/o/{quote(SPARK_CODE_FILE, safe='')}")
    except Refused as refused:
        text = f"[gs://{bucket}/{SPARK_CODE_FILE}] cannot be read, {refused}: no release tells the DAGs where it is."
        yield Finding(Level.FAIL, "Spark code", text, "make deploy")
    else:
        yield ok("Spark code", "a release has laid it.")
