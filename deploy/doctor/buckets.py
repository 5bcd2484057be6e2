"""Landing and state: location, storage class, and whatever deletes, keeps or locks objects behind our back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from deploy.doctor.finding import Finding, Level, Patient, ok
from deploy.doctor.google import Refused

# A delivery must outlast the longest outage after which its publish is still wanted.
LANDING_DAYS = 3
SECONDS_PER_DAY = 86_400
# Regions of Europe that BigQuery does not count to its multi-region EU.
NOT_IN_EU = frozenset({"EUROPE-WEST2", "EUROPE-WEST6"})


def check_buckets(patient: Patient) -> Iterator[Finding]:
    profile = patient.profile
    found = {}
    for word, name in (("landing", profile.landing_bucket), ("state", profile.state_bucket)):
        try:
            found[word] = patient.google.get(f"https://storage.googleapis.com/storage/v1/b/{name}")
        except Refused as refused:
            create = (
                f"gcloud storage buckets create gs://{name} --project={profile.project} "
                f"--location={profile.location} --uniform-bucket-level-access --public-access-prevention "
                f"--soft-delete-duration=0"
            )
            if refused.status != 404:
                create = f"gcloud storage buckets describe gs://{name}"
            yield Finding(Level.FAIL, f"{word} bucket", f"[{name}] cannot be read, {refused}", create)
    for word, bucket in found.items():
        yield from _location(patient, word, bucket)
        yield from _access(word, bucket)
    if "landing" in found:
        yield from _landing(found["landing"])
    if "state" in found:
        yield from _state(found["state"])
    if len(found) == 2:
        yield from _copies(found["landing"], found["state"])


def _location(patient: Patient, word: str, bucket: dict[str, Any]) -> Iterator[Finding]:
    location, expected = bucket["location"].upper(), patient.profile.location.upper()
    subject = f"{word} bucket"
    if location == expected:
        yield ok(subject, f"in [{location}] as the dataset.")
    elif _is_within(location, expected):
        yield ok(subject, f"in [{location}], which is within the dataset's [{expected}].")
    else:
        text = f"[{bucket['name']}] is in [{location}], the dataset in [{expected}]: BigQuery cannot load from there."
        command = (
            f"gcloud storage buckets relocate gs://{bucket['name']} --location={expected}\n"
            f"(or make a new bucket in [{expected}] and name it in dags/profiles/gcp.yaml)"
        )
        yield Finding(Level.FAIL, subject, text, command)


def _is_within(region: str, multi_region: str) -> bool:
    if multi_region == "EU":
        return region.startswith("EUROPE-") and region not in NOT_IN_EU
    return multi_region == "US" and region.startswith("US-")


def _access(word: str, bucket: dict[str, Any]) -> Iterator[Finding]:
    name, configuration = bucket["name"], bucket.get("iamConfiguration", {})
    update = f"gcloud storage buckets update gs://{name}"
    if not configuration.get("uniformBucketLevelAccess", {}).get("enabled"):
        text = f"[{name}] still has access lists of single objects: who may read cannot be told from IAM."
        yield Finding(Level.WARN, f"{word} bucket", text, f"{update} --uniform-bucket-level-access")
    if configuration.get("publicAccessPrevention") != "enforced":
        text = f"[{name}] could be made public by one wrong grant."
        yield Finding(Level.WARN, f"{word} bucket", text, f"{update} --public-access-prevention")


def _landing(bucket: dict[str, Any]) -> Iterator[Finding]:
    name = bucket["name"]
    ages = [rule["condition"]["age"] for rule in _deletions(bucket) if "age" in rule.get("condition", {})]
    if ages and min(ages) < LANDING_DAYS:
        text = (
            f"[{name}] deletes objects after [{min(ages)}] days, expected at least [{LANDING_DAYS}]: deliveries of a "
        )
        text += "long outage would be gone before they are published."
        yield Finding(Level.FAIL, "landing lifecycle", text, _edit_lifecycle(name))
    elif ages:
        yield ok("landing lifecycle", f"objects are deleted after {min(ages)} days.")
    else:
        text = f"[{name}] deletes nothing by itself: unless the producer cleans up, each snapshot stays for ever."
        yield Finding(Level.NOTE, "landing lifecycle", text, _edit_lifecycle(name))


def _state(bucket: dict[str, Any]) -> Iterator[Finding]:
    name = bucket["name"]
    update = f"gcloud storage buckets update gs://{name}"
    deletions = _deletions(bucket)
    if deletions:
        text = (
            f"[{name}] has [{len(deletions)}] lifecycle rules that delete: they would take files of live generations, "
        )
        text += "manifests or the ledger. This project prunes by itself."
        yield Finding(Level.FAIL, "state lifecycle", text, f"{update} --clear-lifecycle")
    else:
        yield ok("state lifecycle", "no rule deletes what the manifests still name.")
    kept_days = int(bucket.get("softDeletePolicy", {}).get("retentionDurationSeconds", "0")) / SECONDS_PER_DAY
    if kept_days:
        text = (
            f"[{name}] keeps and bills deleted objects for [{kept_days:g}] days, expected [0]: every publish prunes a "
        )
        text += f"whole generation, so storage would cost that of {kept_days:g} days of them."
        yield Finding(Level.WARN, "state soft delete", text, f"{update} --clear-soft-delete")
    else:
        yield ok("state soft delete", "off.")
    if bucket.get("versioning", {}).get("enabled"):
        text = f"[{name}] keeps old versions: each pruned generation stays and is billed."
        yield Finding(Level.WARN, "state versioning", text, f"{update} --no-versioning")
    if bucket.get("retentionPolicy") or bucket.get("defaultEventBasedHold"):
        text = f"[{name}] has a retention policy or holds by default: CURRENT could not be replaced."
        command = f"{update} --clear-retention-period --no-default-event-based-hold"
        yield Finding(Level.FAIL, "state retention", text, command)


def _copies(landing: dict[str, Any], state: dict[str, Any]) -> Iterator[Finding]:
    for word, key in (("locations", "location"), ("storage classes", "storageClass")):
        if landing.get(key) != state.get(key):
            text = f"landing is [{landing.get(key)}], state [{state.get(key)}]: adopting a file moves its bytes, which "
            text += "takes time and money; within one they are copied by one call."
            yield Finding(Level.WARN, f"{word} of the buckets", text)


def _deletions(bucket: dict[str, Any]) -> list[dict[str, Any]]:
    """Rules that delete live objects."""
    rules = bucket.get("lifecycle", {}).get("rule", [])
    deleting = [rule for rule in rules if rule.get("action", {}).get("type") == "Delete"]
    return [rule for rule in deleting if rule.get("condition", {}).get("isLive") is not False]


def _edit_lifecycle(name: str) -> str:
    rule = '{"rule": [{"action": {"type": "Delete"}, "condition": {"age": 7}}]}'
    return f"echo '{rule}' > lifecycle.json\ngcloud storage buckets update gs://{name} --lifecycle-file=lifecycle.json"
