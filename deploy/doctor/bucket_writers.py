"""Checks who can write the GCS buckets, by the policies of bucket, project, folders and organization."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from deploy.doctor.finding import Finding, LiveEnvironment, advice_after, grant_to_user, note, ok, warn
from deploy.doctor.google_api import ApiError
from deploy.doctor.iam_policies import (
    bucket_policy,
    container_policy,
    containers_of_project,
    permissions_of,
    project_policy,
)
from deploy.terraform_lists import Bucket, Resource, bucket_condition

# An account with any of these permissions can change objects, delete the bucket, or grant itself the right to do so.
WRITING = frozenset(
    {
        "storage.objects.create",
        "storage.objects.delete",
        "storage.objects.update",
        "storage.objects.setIamPolicy",
        "storage.buckets.delete",
        "storage.buckets.setIamPolicy",
    }
)
# Accounts with which Google's own services act in the project, BigQuery's connections among them.
_SERVICE_AGENT = re.compile(
    r"serviceAccount:((service-\d+|bqcx-[\w-]+)@[\w-]+\.iam|\d+@cloudservices)\.gserviceaccount\.com"
)
# In a bucket's policy, each of these kinds of member stands for everybody who has the basic role on the project.
_BASIC_ROLES = {"projectOwner": "roles/owner", "projectEditor": "roles/editor", "projectViewer": "roles/viewer"}


@dataclass(frozen=True)
class _Writer:
    """A member that can write a GCS bucket, and the grant that allows it.

    `granted_on`: the resource on which the role is granted, such as `projects/p`. `condition`: the condition of the
    grant if the doctor cannot evaluate it, otherwise empty.
    """

    member: str
    role: str
    granted_on: str
    condition: str

    def __str__(self) -> str:
        return f"{self.member} ({self.role} on {self.granted_on}{', under a condition' if self.condition else ''})"

    @property
    def removal(self) -> str:
        """The command that removes the grant."""
        kind, _, name = self.granted_on.partition("/")
        group = {"projects": "projects", "folders": "resource-manager folders", "organizations": "organizations"}
        # Where a policy has conditions, gcloud must be told which of the member's grants to remove.
        limit = " --all" if self.condition else "" if kind == "buckets" else " --condition=None"
        place = f"storage buckets remove-iam-policy-binding gs://{name}" if kind == "buckets" else ""
        place = place or f"{group[kind]} remove-iam-policy-binding {name}"
        return f"gcloud {place} --member={self.member} --role={self.role}{limit}"


def check_writers(live: LiveEnvironment) -> Iterator[Finding]:
    """Findings about all accounts with write access. A policy that cannot be read is a finding, too."""
    writes = cache(lambda role: bool(permissions_of(live, role) & WRITING))  # each role is read once
    inherited = list[tuple[str, dict[str, Any]]]()
    errors: dict[str, ApiError] = {}
    try:
        inherited.append((f"projects/{live.project}", project_policy(live)))
        for container in containers_of_project(live):
            inherited.append((container, container_policy(live, container)))
    except ApiError as error:
        errors["a policy above the buckets"] = error
    for bucket, name in live.buckets.items():
        if name is None:
            continue
        try:
            policies = [(f"buckets/{name}", bucket_policy(live, name)), *inherited]
            writers = list(dict.fromkeys(_writers(name, policies, writes)))
        except ApiError as error:
            errors[f"the rights on [{name}]"] = error
            continue
        yield from _findings(live, bucket, name, writers)
    if errors:
        unread = "; ".join(f"{what}, {error}" for what, error in errors.items())
        text = f"could not be read: {unread}. Other accounts than the findings name may have write access."
        reviewer = grant_to_user(live.project, "roles/iam.securityReviewer")
        missing = "(see the other findings about what is missing)"
        advice = (advice_after(error, if_refused=reviewer, if_missing=missing) for error in errors.values())
        yield note("writers of the buckets", text, "\n".join(dict.fromkeys(advice)))


def _writers(
    bucket: str, policies: list[tuple[str, dict[str, Any]]], writes: Callable[[str], bool]
) -> Iterator[_Writer]:
    """The members that can write the GCS bucket. `policies`: those that apply to it, each with its resource.

    `writes`: whether a role allows writing.
    """
    for resource, policy in policies:
        for binding in policy.get("bindings", []):
            condition = binding.get("condition", {}).get("expression", "")
            if _excludes(condition, bucket) or not writes(binding["role"]):
                continue
            if condition == bucket_condition(bucket):
                condition = ""
            for member in binding.get("members", []):
                for writer in _expand(member, policies):
                    yield _Writer(writer, binding["role"], resource, condition)


def _excludes(condition: str, bucket: str) -> bool:
    """Whether the condition is the text of `bucket_condition` for another GCS bucket."""
    named = re.search(r'== "projects/_/buckets/([^"/]+)"', condition)
    return named is not None and named[1] != bucket and condition == bucket_condition(named[1])


def _expand(member: str, policies: list[tuple[str, dict[str, Any]]]) -> Iterator[str]:
    """The member itself; for a member such as `projectEditor:P`, everybody for whom it stands."""
    basic = _BASIC_ROLES.get(member.partition(":")[0])
    if basic is None:
        yield member
        return
    for resource, policy in policies:
        for binding in policy.get("bindings", []):
            if resource.startswith("projects/") and binding["role"] == basic:
                yield from binding.get("members", [])


def _findings(live: LiveEnvironment, bucket: Bucket, name: str, writers: list[_Writer]) -> Iterator[Finding]:
    subject, expected = f"writers of {bucket}", _expected(live, bucket)
    unexpected = [w for w in writers if w.member not in expected]
    agents = [w for w in unexpected if _SERVICE_AGENT.fullmatch(w.member)]
    people = [w for w in unexpected if w.member.startswith(("user:", "group:", "domain:"))]
    programs = [w for w in unexpected if w not in agents and w not in people]
    if programs:
        text = f"besides {_account_names(expected)} these can write [{name}]: {'; '.join(map(str, programs))}."
        yield warn(subject, text, "\n".join(w.removal for w in programs))
    else:
        yield ok(subject, f"of service accounts, only {_account_names(expected)} can write [{name}].")
    if people or agents:
        text = f"[{name}] can also be written by people and by Google's service agents: "
        yield note(subject, text + "; ".join(map(str, [*people, *agents])) + ".")


def _expected(live: LiveEnvironment, bucket: Bucket) -> set[str]:
    """The service accounts that are meant to write the bucket."""
    # Of the roles on a single bucket in grants.yaml, only roles/storage.objectUser writes.
    place = {Bucket.LANDING: Resource.LANDING, Bucket.STATE: Resource.STATE}.get(bucket)
    writing = (g for g in live.grants if g.only_bucket is bucket or (place and g.place is place and "User" in g.role))
    found = (live.accounts[grant.who] for grant in writing)
    return {f"serviceAccount:{account}" for account in found if account is not None}  # Spark's may be unset


def _account_names(members: set[str]) -> str:
    return " and ".join(f"[{member.partition(':')[2]}]" for member in sorted(members)) or "no account"
