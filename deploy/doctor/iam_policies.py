"""Reads the IAM policies of project, folders, organization and GCS buckets, and the permissions of roles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from deploy.doctor.finding import LiveEnvironment
from deploy.grants import Bucket

RESOURCE_MANAGER = "https://cloudresourcemanager.googleapis.com"
WITH_CONDITIONS = {"options": {"requestedPolicyVersion": 3}}  # lower versions omit conditions


def bucket_name(live: LiveEnvironment, bucket: Bucket) -> str | None:
    """The GCS bucket's name; None for Dataproc's staging bucket when the profile names none."""
    return {
        Bucket.LANDING: live.profile.landing_bucket,
        Bucket.STATE: live.profile.state_bucket,
        Bucket.ENVIRONMENT: live.airflow_environment.bucket,
        Bucket.SPARK_STAGING: live.profile.spark.staging_bucket,
    }[bucket]


def bucket_policy(live: LiveEnvironment, name: str) -> dict[str, Any]:
    """The IAM policy of a GCS bucket. Raises ApiError."""
    url = f"https://storage.googleapis.com/storage/v1/b/{name}/iam"
    return live.google.get(url, optionsRequestedPolicyVersion="3")


def members_with(policy: dict[str, Any], *roles: str) -> set[str]:
    """The members to whom a policy grants one of the roles unconditionally.

    A grant with a condition does not count: the condition could limit the role to other resources.
    """
    bindings = [b for b in policy.get("bindings", []) if b["role"] in roles and "condition" not in b]
    return {member for binding in bindings for member in binding.get("members", [])}


def project_policy(live: LiveEnvironment, project: str = "") -> dict[str, Any]:
    """The IAM policy of a project, by default the profile's. Raises ApiError."""
    url = f"{RESOURCE_MANAGER}/v1/projects/{project or live.profile.project}:getIamPolicy"
    return live.google.read_by_post(url, WITH_CONDITIONS)


def containers_of_project(live: LiveEnvironment) -> Iterator[str]:
    """The folders and the organization that contain the project, as `folders/1`. Raises ApiError."""
    answer = live.google.read_by_post(f"{RESOURCE_MANAGER}/v1/projects/{live.profile.project}:getAncestry")
    for ancestor in answer.get("ancestor", []):
        kind, number = ancestor["resourceId"]["type"], ancestor["resourceId"]["id"]
        if kind != "project":
            yield f"{kind}s/{number}"


def container_policy(live: LiveEnvironment, container: str) -> dict[str, Any]:
    """The IAM policy of a folder or an organization, named as by `containers_of_project`. Raises ApiError."""
    return live.google.read_by_post(f"{RESOURCE_MANAGER}/v3/{container}:getIamPolicy", WITH_CONDITIONS)


class RolePermissions:
    """The permissions of roles, predefined and custom; each role is read once."""

    def __init__(self, live: LiveEnvironment) -> None:
        self._live = live
        self._permissions_by_role: dict[str, frozenset[str]] = {}

    def permissions_of(self, role: str) -> frozenset[str]:
        """The permissions of one role. Raises ApiError."""
        if role not in self._permissions_by_role:
            answer = self._live.google.get(f"https://iam.googleapis.com/v1/{role}")
            self._permissions_by_role[role] = frozenset(answer.get("includedPermissions", []))
        return self._permissions_by_role[role]
