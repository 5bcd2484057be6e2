"""Checks the Managed Airflow environment: version, triggerers, web server plugins, service account, bucket."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from dedup_clone.settings.deployment import PROFILE_VARIABLE, profile_name
from deploy.doctor.finding import Finding, Level, LiveEnvironment, ok
from deploy.doctor.google_api import ApiError
from deploy.environment_settings import REPOSITORY, environment_file

OLDEST_AIRFLOW = (3, 3, 1)
PACKAGES_FILE = REPOSITORY / "requirements" / "composer.txt"
ENVIRONMENT_VARIABLE = "DEDUP_CLONE_ENVIRONMENT"
STATE_BUCKET_VARIABLE = "DEDUP_CLONE_STATE_BUCKET"
MIN_IMPORT_TIMEOUT_S = 120
# Airflow's two limits on the import of a DAG file, each with the sections in which it can be set. The doctor proposes
# the first section.
_IMPORT_TIMEOUTS = {
    "dagbag_import_timeout": ("core",),
    "dag_file_processor_timeout": ("dag_processor", "core"),
}
_IMAGE = re.compile(r"^composer-3-airflow-(?P<airflow>\d+\.\d+\.\d+)")


def check_airflow(live: LiveEnvironment) -> Iterator[Finding]:
    settings = live.airflow_environment
    url = "https://composer.googleapis.com/v1/"
    url += f"projects/{live.profile.project}/locations/{settings.region}/environments/{settings.name}"
    try:
        environment = live.google.get(url)
    except ApiError as error:
        text = f"[{settings.name}] in [{settings.region}] cannot be read, {error}"
        command = f"gcloud composer environments list --locations={settings.region} --project={live.profile.project}"
        yield Finding(Level.FAIL, "environment", text, command)
        return
    config = environment.get("config", {})
    if environment.get("state") not in ("RUNNING", "UPDATING"):  # it remains usable while it is updated
        text = f"[{settings.name}] is [{environment.get('state')}], expected [RUNNING]."
        yield Finding(Level.FAIL, "environment", text, _gcloud(live, "describe"))
    yield from _version(live, config.get("softwareConfig", {}))
    yield from _plugins_and_variables(live, config.get("softwareConfig", {}))
    yield from _packages(live, config.get("softwareConfig", {}).get("pypiPackages", {}))
    yield from _import_timeouts(live, config.get("softwareConfig", {}).get("airflowConfigOverrides", {}))
    yield from _triggerers(live, config)
    yield from _bucket_and_account(live, config)


def _version(live: LiveEnvironment, software: dict[str, Any]) -> Iterator[Finding]:
    image = software.get("imageVersion", "")
    match, oldest = _IMAGE.match(image), ".".join(map(str, OLDEST_AIRFLOW))
    version = tuple(int(part) for part in match["airflow"].split(".")) if match else ()
    if version < OLDEST_AIRFLOW:
        text = f"the image is [{image}], expected Airflow [{oldest}] or later on Composer 3."
        command = _gcloud(live, "update", f"--image-version=composer-3-airflow-{oldest}")
        yield Finding(Level.FAIL, "Airflow version", text, command)
    else:
        yield ok("Airflow version", f"[{image}].")


def _packages(live: LiveEnvironment, installed: dict[str, str]) -> Iterator[Finding]:
    """Whether the environment installs the packages of requirements/composer.txt.

    The API lists only what was installed on top of the image, so the image's own packages cannot be compared.
    """
    needed = dict(line.split(">=") for line in PACKAGES_FILE.read_text().splitlines() if line and line[0] != "#")
    missing = sorted(name for name, oldest in needed.items() if installed.get(name) != f">={oldest}")
    if missing:
        text = f"the environment does not install {missing} with the lower bounds of requirements/composer.txt: if its "
        text += "image has older versions, tasks fail instead of the installation."
        option = "--update-pypi-packages-from-file=requirements/composer.txt"
        yield Finding(Level.WARN, "packages", text, _gcloud(live, "update", option))
    else:
        yield ok("packages", "requirements/composer.txt is installed.")


def _plugins_and_variables(live: LiveEnvironment, software: dict[str, Any]) -> Iterator[Finding]:
    if software.get("webServerPluginsMode") == "PLUGINS_DISABLED":
        text = "the web server loads no plugins: the page Snapshots is missing."
        command = _gcloud(live, "update", "--support-web-server-plugins")
        yield Finding(Level.FAIL, "plugins", text, command)
    found = software.get("envVariables", {})
    values = {STATE_BUCKET_VARIABLE: found.get(STATE_BUCKET_VARIABLE), PROFILE_VARIABLE: profile_name(found)}
    expected = {STATE_BUCKET_VARIABLE: live.profile.state_bucket, PROFILE_VARIABLE: profile_name()}
    wrong = [name for name in expected if values[name] != expected[name]]
    if wrong:
        text = f"{', '.join(f'[{name}] is [{values[name]}], expected [{expected[name]}]' for name in wrong)}: the page "
        text += f"Snapshots finds the state bucket by [{STATE_BUCKET_VARIABLE}], all DAGs find their profile by "
        text += f"[{PROFILE_VARIABLE}]."
        option = f"--update-env-variables={','.join(f'{name}={expected[name]}' for name in wrong)}"
        yield Finding(Level.FAIL, "environment variables", text, _gcloud(live, "update", option))
    else:
        yield ok("environment variables", "they name the state bucket and the profile.")
    if found.get(ENVIRONMENT_VARIABLE):
        yield ok("environment's name", f"[{found[ENVIRONMENT_VARIABLE]}].")
    else:
        text = f"[{ENVIRONMENT_VARIABLE}] is not set: feeds know by it which environment publishes them, and without "
        text += "it tasks fail unless Airflow's [api] base_url is set. If CURRENT of a feed names an environment, set "
        text += "its name."
        name = f"{live.profile.project}/{live.airflow_environment.region}/{live.airflow_environment.name}"
        option = f"--update-env-variables={ENVIRONMENT_VARIABLE}={name}"
        yield Finding(Level.WARN, "environment's name", text, _gcloud(live, "update", option))


def _import_timeouts(live: LiveEnvironment, overrides: dict[str, str]) -> Iterator[Finding]:
    """Whether both limits on the import of a DAG file are at least MIN_IMPORT_TIMEOUT_S."""
    short = {}
    for option, sections in _IMPORT_TIMEOUTS.items():
        found = next((overrides[f"{s}-{option}"] for s in sections if f"{s}-{option}" in overrides), None)
        if found is None or float(found) < MIN_IMPORT_TIMEOUT_S:
            short[f"{sections[0]}-{option}"] = found
    if short:
        text = f"{', '.join(f'[{name}] is [{found}]' for name, found in short.items())}, expected at least "
        text += f"[{MIN_IMPORT_TIMEOUT_S}]: a small machine needs longer than Airflow's default to import a DAG file."
        option = f"--update-airflow-configs={','.join(f'{name}={MIN_IMPORT_TIMEOUT_S}' for name in short)}"
        yield Finding(Level.WARN, "import timeouts", text, _gcloud(live, "update", option))
    else:
        yield ok("import timeouts", "long enough for small machines.")


def _triggerers(live: LiveEnvironment, config: dict[str, Any]) -> Iterator[Finding]:
    count = config.get("workloadsConfig", {}).get("triggerer", {}).get("count", 0)
    if count < 1:
        text = "there is no triggerer: deliveries are not noticed, and deferred tasks never resume."
        option = "--triggerer-count=1 --triggerer-cpu=1 --triggerer-memory=2"
        yield Finding(Level.FAIL, "triggerers", text, _gcloud(live, "update", option))
    else:
        yield ok("triggerers", f"{count}.")


def _bucket_and_account(live: LiveEnvironment, config: dict[str, Any]) -> Iterator[Finding]:
    settings, file = live.airflow_environment, f"deploy/{environment_file().name}"
    prefix, expected = config.get("dagGcsPrefix", ""), f"gs://{settings.bucket}/dags"
    if prefix != expected:
        text = f"the environment reads its DAGs from [{prefix}], but {file} says [{expected}]."
        bucket = prefix.removeprefix("gs://").removesuffix("/dags")
        yield Finding(Level.FAIL, "bucket", text, f"(set `bucket: {bucket}` in {file} and deploy)")
    account = config.get("nodeConfig", {}).get("serviceAccount", "")
    if account != settings.airflow:
        text = (
            f"DAGs run as [{account}], but {file} says [{settings.airflow}]. "
            f"The account of an existing environment cannot be changed."
        )
        yield Finding(Level.FAIL, "service account", text, f"(set `airflow: {account}` in {file})")


def _gcloud(live: LiveEnvironment, verb: str, option: str = "") -> str:
    settings = live.airflow_environment
    command = f"gcloud composer environments {verb} {settings.name} --location={settings.region} "
    return f"{command}--project={live.profile.project} {option}".rstrip()
