"""Reads the IAM policies of projects, GCS buckets and other resources."""

from __future__ import annotations

from typing import Any

from deploy.doctor.finding import LiveEnvironment

RESOURCE_MANAGER = "https://cloudresourcemanager.googleapis.com"
WITH_CONDITIONS = {"options": {"requestedPolicyVersion": 3}}  # lower versions omit conditions


def bucket_policy(live: LiveEnvironment, name: str) -> dict[str, Any]:
    """The IAM policy of a GCS bucket. Raises ApiError."""
    url = f"https://storage.googleapis.com/storage/v1/b/{name}/iam"
    return live.google.get(url, optionsRequestedPolicyVersion="3")


def policy_at(live: LiveEnvironment, url: str) -> dict[str, Any]:
    """The IAM policy of the resource at a URL. Raises ApiError."""
    return live.google.read_by_post(f"{url}:getIamPolicy", WITH_CONDITIONS)


def project_policy(live: LiveEnvironment, project: str = "") -> dict[str, Any]:
    """The IAM policy of a project, by default the profile's. Raises ApiError."""
    return policy_at(live, f"{RESOURCE_MANAGER}/v1/projects/{project or live.project}")


def members_with(policy: dict[str, Any], *roles: str) -> set[str]:
    """The members to whom a policy grants one of the roles unconditionally.

    A grant with a condition does not count: the condition could limit the role to other resources.
    """
    bindings = [b for b in policy.get("bindings", []) if b["role"] in roles and "condition" not in b]
    return {member for binding in bindings for member in binding.get("members", [])}
