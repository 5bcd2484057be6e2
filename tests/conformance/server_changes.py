"""Simulates servers that break a rule: an HTTP session changes requests before they are sent, and answers.

Functions that return a Change say what the simulated server does. `edit` changes a part of a request or answer.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import requests
from google.auth.credentials import AnonymousCredentials
from google.auth.transport.requests import AuthorizedSession

Edit = Callable[[dict[str, Any]], object]


@dataclass
class Call:
    """One request. `body`: its JSON, None if its content is something else."""

    method: str
    url: str
    body: Any


class RefusedRequest(Exception):
    """The simulated server refuses the request with status 400 and this message."""


@dataclass(frozen=True)
class Change:
    """How a simulated server differs: functions that change a request or an answer, and return whether they did."""

    request: Callable[[Call], bool] = lambda call: False
    answer: Callable[[Call, Any], bool] = lambda call, content: False


class BrokenSession(AuthorizedSession):
    """The session. `change`: what it changes, at first nothing. `applied`: how many requests and answers it changed."""

    def __init__(self) -> None:
        super().__init__(AnonymousCredentials())
        self.change = Change()
        self.applied = 0

    def request(self, method: str, url: str, data: Any = None, headers: Any = None, **kw: Any) -> requests.Response:
        is_json = isinstance(data, str) and data.startswith("{")
        call = Call(method, url, json.loads(data) if is_json else None)
        try:
            self.applied += self.change.request(call)
        except RefusedRequest as refused:
            self.applied += 1
            error = {"code": 400, "message": str(refused), "errors": [{"reason": "invalid", "message": str(refused)}]}
            return _answer(call, {"error": error})
        content = json.dumps(call.body) if is_json else data
        response = super().request(call.method, call.url, data=content, headers=headers, **kw)
        if "json" in response.headers.get("content-type", "") and response.ok and response.content:
            answered = response.json()
            if self.change.answer(call, answered):
                self.applied += 1
                response._content = json.dumps(answered).encode()
        return response


def _answer(call: Call, content: Any) -> requests.Response:
    response = requests.Response()
    response.status_code, response._content = 400, json.dumps(content).encode()
    response.headers["content-type"] = "application/json"
    response.request = requests.Request(call.method, call.url).prepare()
    return response


def changed(part: Any, edit: Edit) -> bool:
    """Edit the part, if it is there. Returns whether it differs now."""
    if not isinstance(part, dict):
        return False
    before = json.dumps(part)
    edit(part)
    return json.dumps(part) != before


def without(*path: str) -> Edit:
    """Removes the field with this path, if it is there."""

    def edit(content: dict[str, Any]) -> None:
        for name in path[:-1]:
            content = content.get(name) or {}
        content.pop(path[-1], None)

    return edit


# -- requests


def posted(path: str, edit: Edit, method: str = "POST") -> Change:
    """The server reads requests otherwise than they were sent, if their address matches `path`."""
    return Change(lambda call: call.method == method and bool(re.search(path, call.url)) and changed(call.body, edit))


def patched(edit: Edit, path: str = "/tables/") -> Change:
    """The server overlooks a part of PATCH requests, by default of changes of tables."""
    return posted(path, edit, "PATCH")


def job(kind: str, edit: Edit) -> Change:
    """The server runs jobs of this kind, such as load, with a changed configuration."""
    return Change(
        lambda call: (
            call.method == "POST"
            and isinstance(call.body, dict)
            and changed(call.body.get("configuration", {}).get(kind), edit)
        )
    )


def sql(pattern: str, replacement: str) -> Change:
    """The server runs another statement than it was sent: matches of `pattern` are replaced."""

    def edit(query: dict[str, Any]) -> None:
        if isinstance(query.get("query"), str):
            query["query"] = re.sub(pattern, replacement, query["query"], flags=re.DOTALL)

    return together(job("query", edit), posted("/queries", edit))


def refused(pattern: str, message: str = "not supported") -> Change:
    """The server refuses requests whose JSON contains the pattern."""

    def request(call: Call) -> bool:
        if call.method in ("POST", "PUT") and call.body is not None and re.search(pattern, json.dumps(call.body)):
            raise RefusedRequest(message)
        return False

    return Change(request)


def disposition(sent: str, used: str, kind: str = "load") -> Change:
    """The server uses write disposition `used` for jobs that are sent with `sent`."""

    def edit(configuration: dict[str, Any]) -> None:
        if configuration.get("writeDisposition") == sent:
            configuration["writeDisposition"] = used

    return job(kind, edit)


def uris(edit: Callable[[str], str | None]) -> Change:
    """The server loads other URIs. `edit`: returns the other URI, None to leave a URI out."""
    return job("load", lambda load: load.update(sourceUris=[uri for uri in map(edit, load["sourceUris"]) if uri]))


def whole_table(kind: str, field: str) -> Change:
    """The server overlooks the partition that `$` names in a table of jobs of this kind."""

    def edit(configuration: dict[str, Any]) -> None:
        configuration[field]["tableId"] = configuration[field]["tableId"].partition("$")[0]

    return job(kind, edit)


def address(pattern: str, replacement: str) -> Change:
    """The server overlooks a part of the address: matches of `pattern` are replaced."""

    def request(call: Call) -> bool:
        before, call.url = call.url, re.sub(pattern, replacement, call.url)
        return call.url != before

    return Change(request)


def repeated_job_ids(step: str = "") -> Change:
    """The server runs a second job under the id of an earlier one, of this step of a publish or of any job."""
    seen: set[str] = set()

    def request(call: Call) -> bool:
        reference = (call.body or {}).get("jobReference", {}) if call.method == "POST" else {}
        name = reference.get("jobId", "")
        if not name or (step and not re.search(f"-{step}-\\d+$", name)):
            return False
        if name not in seen:
            seen.add(name)
            return False
        reference["jobId"] += uuid.uuid4().hex[:8]
        return True

    return Change(request)


def expiration(milliseconds: int | None) -> Change:
    """Tables get another partition expiration than the one that was asked for."""

    def edit(table: dict[str, Any]) -> None:
        if "expirationMs" in table.get("timePartitioning", {}):
            table["timePartitioning"]["expirationMs"] = milliseconds and str(milliseconds)

    return posted("/tables", edit)


def without_table_access() -> Change:
    """The server ignores IAM policies of tables: it accepts every policy and returns none."""

    def request(call: Call) -> bool:
        before = call.url
        call.url = re.sub(":[gs]etIamPolicy", "", before)
        if call.url != before:
            call.method, call.body = "GET", None
        return call.url != before

    return Change(request)


# -- answers


def answered(path: str, edit: Edit, method: str = "GET") -> Change:
    """The server gives changed answers to requests whose address matches `path`."""
    return Change(
        answer=lambda call, content: (
            call.method == method and bool(re.search(path, call.url)) and changed(content, edit)
        )
    )


def of_targets(edit: Edit, table: str = r"\w+_target|engines_\d+") -> Change:
    """The server reports changed metadata of target tables."""
    return answered(rf"/tables/({table})(\?|$)", edit)


def clone(**values: Any) -> Change:
    """The server reports other values in the clone definition of target tables."""
    return of_targets(lambda t: t["cloneDefinition"].update(values) if "cloneDefinition" in t else None)


def statistics(edit: Edit) -> Change:
    """The server reports changed statistics of jobs."""
    return Change(answer=lambda call, content: changed(content.get("statistics"), edit))


def query_statistics(**values: str) -> Change:
    """The server reports these statistics of queries."""
    return statistics(lambda s: (s.update(values), s.setdefault("query", {}).update(values)))


def keeps_replaced_policy() -> Change:
    """A clone also has the policy that was added to the table that it replaces."""
    policy = {"rowAccessPolicyReference": {"policyId": "own_policy"}}
    return answered("/carried_target/rowAccessPolicies", lambda c: c.setdefault("rowAccessPolicies", []).append(policy))


def permissions(granted: str) -> Change:
    """The server says that the caller has the permission `granted`, although it does not."""
    return answered(
        ":testIamPermissions", lambda c: c.update(permissions=[*c.get("permissions", []), granted]), method="POST"
    )


def selected(expression: str, column: str) -> Change:
    """The column of a published table has other values than were loaded."""
    return sql(r"SELECT \* FROM (\S+engines_\d+)$", rf"SELECT * REPLACE ({expression} AS {column}) FROM \1")


def fields(edit: Edit) -> Edit:
    """Edits each field of a table's schema, also the nested ones."""

    def edit_table(table: dict[str, Any]) -> None:
        left = list((table.get("schema") or {}).get("fields", ()))
        while left:
            field = left.pop()
            edit(field)
            left += field.get("fields", ())

    return edit_table


def together(*changes: Change) -> Change:
    """The server does all of this."""
    return Change(
        lambda call: any([change.request(call) for change in changes]),
        lambda call, content: any([change.answer(call, content) for change in changes]),
    )
