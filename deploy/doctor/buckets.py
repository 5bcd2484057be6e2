"""Checks the landing and state buckets: settings, location, and lifecycle rules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from deploy.doctor.finding import Finding, LiveEnvironment, fail, note, ok, reading, until_ended, warn
from deploy.doctor.settings import Kind, check_settings
from deploy.terraform_lists import Bucket

# Landing must keep deliveries at least this long, so that they can still be published after an outage.
MIN_LANDING_DAYS = 3
MULTI_REGIONS = frozenset({"ASIA", "EU", "US"})
# European regions that do not belong to BigQuery's multi-region EU.
NOT_IN_EU = frozenset({"EUROPE-WEST2", "EUROPE-WEST6"})
# The dual-regions that have a name, with their two regions. BigQuery loads from a dual-region into a dataset in either.
DUAL_REGIONS = {
    "ASIA1": ("ASIA-NORTHEAST1", "ASIA-NORTHEAST2"),
    "EUR4": ("EUROPE-NORTH1", "EUROPE-WEST4"),
    "NAM4": ("US-CENTRAL1", "US-EAST1"),
}
# Lifecycle rules apply to objects that meet all parts of their condition. No live object meets one of these parts.
NONCURRENT = frozenset({"daysSinceNoncurrentTime", "noncurrentTimeBefore"})


def check_buckets(live: LiveEnvironment) -> Iterator[Finding]:
    found: dict[Bucket, dict[str, Any]] = {}
    for role in (Bucket.LANDING, Bucket.STATE):
        yield from until_ended(_bucket(live, role, found))
    if len(found) == 2:
        yield from _server_side_copies(found[Bucket.LANDING], found[Bucket.STATE])


def _bucket(live: LiveEnvironment, role: Bucket, found: dict[Bucket, dict[str, Any]]) -> Iterator[Finding]:
    """The findings about one bucket, which is put into `found`."""
    name, profile = live.buckets[role], live.profile
    create = f"gcloud storage buckets create gs://{name} --project={profile.project} --location={profile.location} "
    create += "--uniform-bucket-level-access --public-access-prevention --soft-delete-duration=0"
    describe = f"gcloud storage buckets describe gs://{name}"
    with reading(f"{role} bucket", f"[{name}]", if_refused=describe, if_missing=create):
        found[role] = bucket = live.google.get(f"https://storage.googleapis.com/storage/v1/b/{name}")
    update = f"gcloud storage buckets update gs://{name}"
    yield from _location(live, role, bucket)
    kinds: tuple[Kind, ...] = ("bucket",) if role is Bucket.LANDING else ("bucket", "state")
    yield from check_settings(live, kinds, bucket, name=bucket["name"], update=update, role=role)
    yield from (_landing if role is Bucket.LANDING else _state)(bucket, update)


def _location(live: LiveEnvironment, role: Bucket, bucket: dict[str, Any]) -> Iterator[Finding]:
    location, expected = bucket["location"].upper(), live.profile.location.upper()
    subject, name = f"{role} bucket", bucket["name"]
    relocate = f"gcloud storage buckets relocate gs://{name} --location="
    to_region = f"{relocate}{live.profile.spark.region or 'REGION'}"
    pair = bucket.get("customPlacementConfig", {}).get("dataLocations", DUAL_REGIONS.get(location, ()))
    if any(region == expected or _is_within(region, expected) for region in pair):
        text = f"[{name}] is in the dual-region {list(pair)}: each byte that is written is billed for its copy. "
        yield warn(subject, text + "With buckets, dataset and Spark in one region none is.", to_region)
    elif location == expected and location in MULTI_REGIONS:
        text = f"[{name}] is in the multi-region [{location}]: each byte that is written, or read by Spark, is billed "
        text += "(docs/deploy.md). With buckets, dataset and Spark in one region neither is billed."
        yield warn(subject, text, to_region)
    elif location == expected:
        yield ok(subject, f"in [{location}], like the dataset.")
    elif _is_within(location, expected):
        yield ok(subject, f"in [{location}], which is within the dataset's [{expected}].")
    else:
        text = f"[{name}] is in [{location}], the dataset in [{expected}]: BigQuery cannot load from there."
        command = f"{relocate}{expected}\n(or create a bucket in [{expected}] and name it in the profile)"
        yield fail(subject, text, command)


def _is_within(region: str, multi_region: str) -> bool:
    if multi_region == "EU":
        return region.startswith("EUROPE-") and region not in NOT_IN_EU
    return multi_region == "US" and region.startswith("US-")


def _landing(bucket: dict[str, Any], update: str) -> Iterator[Finding]:
    subject, name, command = "landing lifecycle", bucket["name"], _set_lifecycle(update, '{"age": 7}')
    ages = [condition["age"] for condition in _deletions(bucket) if "age" in condition and not _spares_live(condition)]
    if not ages:
        text = f"[{name}] has no lifecycle rule by age: a snapshot stays until the producer deletes it."
        yield note(subject, text, command)
    elif min(ages) < MIN_LANDING_DAYS:
        text = f"[{name}] deletes objects after [{min(ages)}] days, expected at least [{MIN_LANDING_DAYS}]: during a "
        text += "long outage it would delete deliveries before they are published."
        yield fail(subject, text, command)
    else:
        yield ok(subject, f"objects are deleted after {min(ages)} days.")


def _state(bucket: dict[str, Any], update: str) -> Iterator[Finding]:
    name, conditions = bucket["name"], _deletions(bucket)
    sparing = [condition for condition in conditions if _spares_live(condition)]
    if len(sparing) < len(conditions):
        text = f"[{name}] has [{len(conditions) - len(sparing)}] lifecycle rules that delete live objects: they would "
        text += "remove the files of the live generation, manifests and the ledger. They are not needed: publishes "
        yield fail("state lifecycle", text + "delete old files.", f"{update} --clear-lifecycle")
    else:
        yield ok("state lifecycle", "no rule deletes live objects.")
    of_all_names = [condition for condition in sparing if not {"matchesPrefix", "matchesSuffix"} & condition.keys()]
    if bucket.get("versioning", {}).get("enabled") and not of_all_names:
        text = f"[{name}] keeps every former version for ever, and bills it: no lifecycle rule deletes them."
        yield warn("state versioning", text, _set_lifecycle(update, '{"daysSinceNoncurrentTime": 30}'))


def _deletions(bucket: dict[str, Any]) -> list[dict[str, Any]]:
    """The conditions of the lifecycle rules that delete objects."""
    rules = bucket.get("lifecycle", {}).get("rule", [])
    return [rule.get("condition", {}) for rule in rules if rule.get("action", {}).get("type") == "Delete"]


def _spares_live(condition: dict[str, Any]) -> bool:
    """Whether a lifecycle rule with this condition applies to no live object."""
    is_of_former = condition.get("isLive") is False or condition.get("numNewerVersions", 0) > 0
    return is_of_former or not NONCURRENT.isdisjoint(condition)


def _set_lifecycle(update: str, condition: str) -> str:
    rules = f'{{"rule": [{{"action": {{"type": "Delete"}}, "condition": {condition}}}]}}'
    return f"echo '{rules}' > lifecycle.json\n{update} --lifecycle-file=lifecycle.json"


def _server_side_copies(landing: dict[str, Any], state: dict[str, Any]) -> Iterator[Finding]:
    """Warnings if copying an object from landing to state moves its bytes."""
    for property_name, key in (("locations", "location"), ("storage classes", "storageClass")):
        if landing.get(key) != state.get(key):
            text = f"landing is [{landing.get(key)}], state [{state.get(key)}]: copying an adopted file moves its "
            text += "bytes, which takes time and money. If both were equal, one call would copy the file on the server."
            yield warn(f"{property_name} of the buckets", text)
