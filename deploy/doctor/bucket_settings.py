"""Checks the landing and state buckets: location, access, and rules that delete, retain or lock objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from deploy.doctor.finding import Finding, Level, LiveEnvironment, ok
from deploy.doctor.google_api import ApiError

# Landing must keep deliveries at least this long, so that they can still be published after an outage.
MIN_LANDING_DAYS = 3
SECONDS_PER_DAY = 86_400
MULTI_REGIONS = frozenset({"ASIA", "EU", "US"})
# European regions that do not belong to BigQuery's multi-region EU.
NOT_IN_EU = frozenset({"EUROPE-WEST2", "EUROPE-WEST6"})
# The dual-regions that have a name, with their two regions. BigQuery loads from a dual-region into a dataset in either.
DUAL_REGIONS = {
    "ASIA1": ("ASIA-NORTHEAST1", "ASIA-NORTHEAST2"),
    "EUR4": ("EUROPE-NORTH1", "EUROPE-WEST4"),
    "NAM4": ("US-CENTRAL1", "US-EAST1"),
}


def check_buckets(live: LiveEnvironment) -> Iterator[Finding]:
    profile = live.profile
    found = {}
    for role, name in (("landing", profile.landing_bucket), ("state", profile.state_bucket)):
        try:
            found[role] = live.google.get(f"https://storage.googleapis.com/storage/v1/b/{name}")
        except ApiError as error:
            create = (
                f"gcloud storage buckets create gs://{name} --project={profile.project} "
                f"--location={profile.location} --uniform-bucket-level-access --public-access-prevention "
                f"--soft-delete-duration=0"
            )
            if error.status != 404:
                create = f"gcloud storage buckets describe gs://{name}"
            yield Finding(Level.FAIL, f"{role} bucket", f"[{name}] cannot be read, {error}", create)
    for role, bucket in found.items():
        yield from _location(live, role, bucket)
        yield from _access(role, bucket)
    if "landing" in found:
        yield from _landing(found["landing"])
    if "state" in found:
        yield from _state(found["state"])
    if len(found) == 2:
        yield from _server_side_copies(found["landing"], found["state"])


def _location(live: LiveEnvironment, role: str, bucket: dict[str, Any]) -> Iterator[Finding]:
    location, expected = bucket["location"].upper(), live.profile.location.upper()
    subject = f"{role} bucket"
    pair = bucket.get("customPlacementConfig", {}).get("dataLocations", DUAL_REGIONS.get(location, ()))
    if any(region == expected or _is_within(region, expected) for region in pair):
        text = f"[{bucket['name']}] is in the dual-region {list(pair)}: each byte that is written is billed for its "
        text += "copy. With buckets, dataset and Spark in one region none is."
        yield Finding(Level.WARN, subject, text, _relocate(live, bucket))
    elif location == expected and location in MULTI_REGIONS:
        text = f"[{bucket['name']}] is in the multi-region [{location}]: each byte that is written, or read by Spark, "
        text += "is billed (docs/deploy.md). With buckets, dataset and Spark in one region neither is billed."
        yield Finding(Level.WARN, subject, text, _relocate(live, bucket))
    elif location == expected:
        yield ok(subject, f"in [{location}], like the dataset.")
    elif _is_within(location, expected):
        yield ok(subject, f"in [{location}], which is within the dataset's [{expected}].")
    else:
        text = f"[{bucket['name']}] is in [{location}], the dataset in [{expected}]: BigQuery cannot load from there."
        command = (
            f"gcloud storage buckets relocate gs://{bucket['name']} --location={expected}\n"
            f"(or create a bucket in [{expected}] and name it in the profile)"
        )
        yield Finding(Level.FAIL, subject, text, command)


def _relocate(live: LiveEnvironment, bucket: dict[str, Any]) -> str:
    return f"gcloud storage buckets relocate gs://{bucket['name']} --location={live.profile.spark.region or 'REGION'}"


def _is_within(region: str, multi_region: str) -> bool:
    if multi_region == "EU":
        return region.startswith("EUROPE-") and region not in NOT_IN_EU
    return multi_region == "US" and region.startswith("US-")


def _access(role: str, bucket: dict[str, Any]) -> Iterator[Finding]:
    name, configuration = bucket["name"], bucket.get("iamConfiguration", {})
    update = f"gcloud storage buckets update gs://{name}"
    if not configuration.get("uniformBucketLevelAccess", {}).get("enabled"):
        text = f"[{name}] allows access lists (ACLs) of single objects, so IAM alone does not show who may read them."
        yield Finding(Level.WARN, f"{role} bucket", text, f"{update} --uniform-bucket-level-access")
    if configuration.get("publicAccessPrevention") != "enforced":
        text = f"[{name}] could be made public by one wrong grant."
        yield Finding(Level.WARN, f"{role} bucket", text, f"{update} --public-access-prevention")


def _landing(bucket: dict[str, Any]) -> Iterator[Finding]:
    name = bucket["name"]
    ages = [rule["condition"]["age"] for rule in _deletions(bucket) if "age" in rule.get("condition", {})]
    if ages and min(ages) < MIN_LANDING_DAYS:
        text = (
            f"[{name}] deletes objects after [{min(ages)}] days, expected at least [{MIN_LANDING_DAYS}]: during a long "
        )
        text += "outage it would delete deliveries before they are published."
        yield Finding(Level.FAIL, "landing lifecycle", text, _edit_lifecycle(name))
    elif ages:
        yield ok("landing lifecycle", f"objects are deleted after {min(ages)} days.")
    else:
        text = f"[{name}] has no lifecycle rule by age: a snapshot stays until the producer deletes it."
        yield Finding(Level.NOTE, "landing lifecycle", text, _edit_lifecycle(name))


def _state(bucket: dict[str, Any]) -> Iterator[Finding]:
    name = bucket["name"]
    update = f"gcloud storage buckets update gs://{name}"
    deletions = _deletions(bucket)
    if deletions:
        text = f"[{name}] has [{len(deletions)}] lifecycle rules that delete live objects: they would remove the files "
        text += "of the live generation, manifests and the ledger. They are not needed: publishes delete old files."
        yield Finding(Level.FAIL, "state lifecycle", text, f"{update} --clear-lifecycle")
    else:
        yield ok("state lifecycle", "no rule deletes live objects.")
    soft_delete_days = int(bucket.get("softDeletePolicy", {}).get("retentionDurationSeconds", "0")) / SECONDS_PER_DAY
    if soft_delete_days:
        text = f"[{name}] keeps and bills deleted objects for [{soft_delete_days:g}] days, expected [0]: every publish "
        text += f"deletes a whole generation, so you would pay for all generations of {soft_delete_days:g} days."
        yield Finding(Level.WARN, "state soft delete", text, f"{update} --clear-soft-delete")
    else:
        yield ok("state soft delete", "off.")
    if bucket.get("versioning", {}).get("enabled") and _deletes_former_versions(bucket):
        yield ok("state versioning", "records that are replaced or deleted by mistake can be restored.")
    elif bucket.get("versioning", {}).get("enabled"):
        text = f"[{name}] keeps every former version for ever, and bills it: no lifecycle rule deletes them."
        rules = '{"rule": [{"action": {"type": "Delete"}, "condition": {"daysSinceNoncurrentTime": 30}}]}'
        command = f"echo '{rules}' > lifecycle.json\n{update} --lifecycle-file=lifecycle.json"
        yield Finding(Level.WARN, "state versioning", text, command)
    else:
        text = f"[{name}] keeps no former versions: a record that is deleted or overwritten by mistake is lost."
        yield Finding(Level.WARN, "state versioning", text, f"{update} --versioning")
    if bucket.get("retentionPolicy") or bucket.get("defaultEventBasedHold"):
        text = f"[{name}] has a retention policy or a default event-based hold: CURRENT could not be replaced."
        command = f"{update} --clear-retention-period --no-default-event-based-hold"
        yield Finding(Level.FAIL, "state retention", text, command)


def _server_side_copies(landing: dict[str, Any], state: dict[str, Any]) -> Iterator[Finding]:
    """Warnings if copying an object from landing to state moves its bytes."""
    for property_name, key in (("locations", "location"), ("storage classes", "storageClass")):
        if landing.get(key) != state.get(key):
            text = (
                f"landing is [{landing.get(key)}], state [{state.get(key)}]: copying an adopted file moves its bytes, "
            )
            text += "which takes time and money. If both were equal, one call would copy the file on the server."
            yield Finding(Level.WARN, f"{property_name} of the buckets", text)


def _deletions(bucket: dict[str, Any]) -> list[dict[str, Any]]:
    """Lifecycle rules that delete live objects."""
    rules = bucket.get("lifecycle", {}).get("rule", [])
    deleting = [rule for rule in rules if rule.get("action", {}).get("type") == "Delete"]
    return [rule for rule in deleting if not _spares_live_objects(rule.get("condition", {}))]


def _deletes_former_versions(bucket: dict[str, Any]) -> bool:
    """Whether a rule deletes former versions of all objects, not only of those with certain names."""
    rules = [r for r in bucket.get("lifecycle", {}).get("rule", []) if r.get("action", {}).get("type") == "Delete"]
    conditions = [rule.get("condition", {}) for rule in rules]
    return any(_spares_live_objects(c) and not {"matchesPrefix", "matchesSuffix"} & c.keys() for c in conditions)


def _spares_live_objects(condition: dict[str, Any]) -> bool:
    """Whether a lifecycle rule with this condition applies to no live object.

    A rule applies to objects that meet all parts of its condition. No live object meets any of the parts named here.
    """
    noncurrent_parts = ("daysSinceNoncurrentTime", "noncurrentTimeBefore")
    return (
        condition.get("isLive") is False
        or condition.get("numNewerVersions", 0) > 0
        or any(name in condition for name in noncurrent_parts)
    )


def _edit_lifecycle(name: str) -> str:
    rule = '{"rule": [{"action": {"type": "Delete"}, "condition": {"age": 7}}]}'
    return f"echo '{rule}' > lifecycle.json\ngcloud storage buckets update gs://{name} --lifecycle-file=lifecycle.json"
