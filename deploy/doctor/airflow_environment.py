"""Checks the Managed Airflow environment: settings, version and packages."""

from __future__ import annotations

import re
from collections.abc import Iterator

from deploy.doctor.finding import Finding, LiveEnvironment, fail, ok, reading, warn
from deploy.doctor.settings import check_settings
from deploy.environment_settings import REPOSITORY

OLDEST_AIRFLOW = (3, 3, 1)
PACKAGES_FILE = REPOSITORY / "requirements" / "composer.txt"
_IMAGE = re.compile(r"^composer-3-airflow-(?P<airflow>\d+\.\d+\.\d+)")


def check_airflow(live: LiveEnvironment) -> Iterator[Finding]:
    settings, project = live.airflow_environment, live.project
    url = f"https://composer.googleapis.com/v1/projects/{project}/locations/{settings.region}/environments/"
    command = f"gcloud composer environments list --locations={settings.region} --project={project}"
    what = f"[{settings.name}] in [{settings.region}]"
    with reading("environment", what, if_refused=command, if_missing=command):
        environment = live.google.get(url + settings.name)
    update = f"gcloud composer environments update {settings.name} --location={settings.region} --project={project}"
    yield from check_settings(live, ("environment",), environment, name=settings.name, update=update)
    software = environment.get("config", {}).get("softwareConfig", {})
    yield _version(software.get("imageVersion", ""), update)
    yield _packages(software.get("pypiPackages", {}), update)


def _version(image: str, update: str) -> Finding:
    match, oldest = _IMAGE.match(image), ".".join(map(str, OLDEST_AIRFLOW))
    version = tuple(int(part) for part in match["airflow"].split(".")) if match else ()
    if version >= OLDEST_AIRFLOW:
        return ok("Airflow version", f"[{image}].")
    text = f"the image is [{image}], expected Airflow [{oldest}] or later on Composer 3."
    return fail("Airflow version", text, f"{update} --image-version=composer-3-airflow-{oldest}")


def _packages(installed: dict[str, str], update: str) -> Finding:
    """Whether the environment installs the packages of requirements/composer.txt.

    The API lists only what was installed on top of the image, so the image's own packages cannot be compared.
    """
    needed = dict(line.split(">=") for line in PACKAGES_FILE.read_text().splitlines() if line and line[0] != "#")
    missing = sorted(name for name, oldest in needed.items() if installed.get(name) != f">={oldest}")
    if not missing:
        return ok("packages", "requirements/composer.txt is installed.")
    text = f"the environment does not install {missing} with the lower bounds of requirements/composer.txt: if its "
    text += "image has older versions, tasks fail instead of the installation."
    return warn("packages", text, f"{update} --update-pypi-packages-from-file=requirements/composer.txt")
