"""The Managed Airflow environment: version, triggerers, web server plugins, account and bucket."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from deploy.doctor.finding import Finding, Level, Patient, ok
from deploy.doctor.google import Refused

OLDEST_AIRFLOW = (3, 3, 1)
STATE_VARIABLE = "DEDUP_CLONE_STATE_BUCKET"
_IMAGE = re.compile(r"^composer-(?P<composer>\d+)-airflow-(?P<airflow>\d+\.\d+\.\d+)")


def check_airflow(patient: Patient) -> Iterator[Finding]:
    wanted = patient.environment
    url = "https://composer.googleapis.com/v1/"
    url += f"projects/{patient.profile.project}/locations/{wanted.region}/environments/{wanted.name}"
    try:
        environment = patient.google.get(url)
    except Refused as refused:
        text = f"[{wanted.name}] in [{wanted.region}] cannot be read, {refused}"
        command = f"gcloud composer environments list --locations={wanted.region} --project={patient.profile.project}"
        yield Finding(Level.FAIL, "environment", text, command)
        return
    config = environment.get("config", {})
    if environment.get("state") != "RUNNING":
        text = f"[{wanted.name}] is [{environment.get('state')}], expected [RUNNING]."
        yield Finding(Level.FAIL, "environment", text, _gcloud(patient, "describe"))
    yield from _version(patient, config.get("softwareConfig", {}))
    yield from _software(patient, config.get("softwareConfig", {}))
    yield from _triggerers(patient, config)
    yield from _names(patient, config)


def _version(patient: Patient, software: dict[str, Any]) -> Iterator[Finding]:
    image = software.get("imageVersion", "")
    match, oldest = _IMAGE.match(image), ".".join(map(str, OLDEST_AIRFLOW))
    version = tuple(int(part) for part in match["airflow"].split(".")) if match else ()
    if version < OLDEST_AIRFLOW:
        text = f"the image is [{image}], expected Airflow [{oldest}] or later on Composer 3."
        command = _gcloud(patient, "update", f"--image-version=composer-3-airflow-{oldest}")
        yield Finding(Level.FAIL, "Airflow version", text, command)
    else:
        yield ok("Airflow version", f"[{image}].")
    text = "the API does not tell which provider versions the image has; requirements.txt names the oldest that do."
    command = _gcloud(patient, "run", "providers list")
    yield Finding(Level.NOTE, "provider versions", text, command)


def _software(patient: Patient, software: dict[str, Any]) -> Iterator[Finding]:
    if software.get("webServerPluginsMode") == "PLUGINS_DISABLED":
        text = "plugins of the web server are off: no page Snapshots, and no deadlines."
        command = _gcloud(patient, "update", "--support-web-server-plugins")
        yield Finding(Level.FAIL, "plugins", text, command)
    found = software.get("envVariables", {}).get(STATE_VARIABLE)
    if found != patient.profile.state_bucket:
        text = f"[{STATE_VARIABLE}] is [{found}], expected [{patient.profile.state_bucket}]: the page, which sees no "
        text += "profile, reads there."
        option = f"--update-env-variables={STATE_VARIABLE}={patient.profile.state_bucket}"
        yield Finding(Level.FAIL, "environment variables", text, _gcloud(patient, "update", option))
    else:
        yield ok("environment variables", f"[{STATE_VARIABLE}] names the state bucket.")


def _triggerers(patient: Patient, config: dict[str, Any]) -> Iterator[Finding]:
    count = config.get("workloadsConfig", {}).get("triggerer", {}).get("count", 0)
    if count < 1:
        text = "there is no triggerer: no delivery is noticed, and no load is waited for."
        option = "--triggerer-count=1 --triggerer-cpu=1 --triggerer-memory=2"
        yield Finding(Level.FAIL, "triggerers", text, _gcloud(patient, "update", option))
    else:
        yield ok("triggerers", f"{count}.")


def _names(patient: Patient, config: dict[str, Any]) -> Iterator[Finding]:
    wanted = patient.environment
    prefix, expected = config.get("dagGcsPrefix", ""), f"gs://{wanted.bucket}/dags"
    if prefix != expected:
        text = f"the environment reads [{prefix}], deploy/environment.yaml says [{expected}]."
        bucket = prefix.removeprefix("gs://").removesuffix("/dags")
        yield Finding(Level.FAIL, "bucket", text, f"(set `bucket: {bucket}` in deploy/environment.yaml and deploy)")
    account = config.get("nodeConfig", {}).get("serviceAccount", "")
    if account != wanted.airflow:
        text = f"DAGs run as [{account}], deploy/environment.yaml says [{wanted.airflow}] (it cannot be changed later)."
        yield Finding(Level.FAIL, "service account", text, f"(set `airflow: {account}` in deploy/environment.yaml)")


def _gcloud(patient: Patient, verb: str, option: str = "") -> str:
    wanted = patient.environment
    command = f"gcloud composer environments {verb} {wanted.name} --location={wanted.region} "
    return f"{command}--project={patient.profile.project} {option}".rstrip()
