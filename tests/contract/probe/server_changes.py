"""Makes the changes of requests and answers by which a server breaks an assumption of the probe.

Functions that return a Change say what the simulated server does. `edit` changes a part of a request or answer.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable
from typing import Any

from tests.contract.probe.broken_session import Call, Change, RefusedRequest


def query_of(call: Call) -> dict[str, Any] | None:
    """The object in the request's JSON that has SQL text in its field `query`; None if there is none."""
    if call.method != "POST" or not isinstance(call.body, dict):
        return None
    inside: Any = call.body.get("configuration", {}).get("query") or call.body
    return inside if isinstance(inside.get("query"), str) else None


def sql(pattern: str, replacement: str) -> Change:
    """The server runs another statement than it was sent: matches of `pattern` are replaced."""

    def request(call: Call) -> bool:
        query = query_of(call)
        before = query["query"] if query else ""
        if query:
            query["query"] = re.sub(pattern, replacement, before, flags=re.DOTALL)
        return query is not None and query["query"] != before

    return Change(request)


def refused(pattern: str, message: str = "not supported") -> Change:
    """The server refuses requests whose JSON contains the pattern."""

    def request(call: Call) -> bool:
        if call.method in ("POST", "PUT") and call.body is not None and re.search(pattern, json.dumps(call.body)):
            raise RefusedRequest(message)
        return False

    return Change(request)


def job(kind: str, edit: Callable[[dict[str, Any]], bool]) -> Change:
    """The server runs jobs of this kind, such as load, with a changed configuration."""

    def request(call: Call) -> bool:
        found = (call.body or {}).get("configuration", {}).get(kind) if call.method == "POST" else None
        return bool(found) and edit(found)

    return Change(request)


def disposition(sent: str, used: str, kind: str = "load") -> Change:
    """The server uses write disposition `used` for jobs that are sent with `sent`."""

    def edit(configuration: dict[str, Any]) -> bool:
        if configuration.get("writeDisposition") != sent:
            return False
        configuration["writeDisposition"] = used
        return True

    return job(kind, edit)


def answer(path: str, edit: Callable[[dict[str, Any]], object]) -> Change:
    """The server gives changed answers to GET requests whose address matches `path`."""

    def changed(call: Call, content: Any) -> bool:
        if call.method != "GET" or not re.search(path, call.url):
            return False
        before = json.dumps(content)
        edit(content)
        return json.dumps(content) != before

    return Change(answer=changed)


def statistics(edit: Callable[[dict[str, Any]], object]) -> Change:
    """The server reports changed statistics of jobs."""

    def changed(call: Call, content: Any) -> bool:
        if "statistics" not in content:
            return False
        before = json.dumps(content)
        edit(content["statistics"])
        return json.dumps(content) != before

    return Change(answer=changed)


def address(pattern: str, replacement: str) -> Change:
    """The server overlooks a part of the address: matches of `pattern` are replaced."""

    def request(call: Call) -> bool:
        before, call.url = call.url, re.sub(pattern, replacement, call.url)
        return call.url != before

    return Change(request)


def target(edit: Callable[[dict[str, Any]], object], table: str = r"\w+_target|engines_\d+") -> Change:
    """The server reports changed metadata of target tables."""
    return answer(rf"/tables/({table})(\?|$)", edit)


def clone(**changed: Any) -> Change:
    """The server reports other values in the clone definition of target tables."""
    return target(lambda t: t["cloneDefinition"].update(changed) if "cloneDefinition" in t else None)


def without(name: str) -> Callable[[dict[str, Any]], object]:
    return lambda content: content.pop(name, None)


def query_statistics(**values: str) -> Change:
    """The server reports these statistics of queries."""
    return statistics(lambda s: (s.update(values), s.setdefault("query", {}).update(values)))


def uris(edit: Callable[[str], str | None]) -> Change:
    """The server loads other URIs. `edit`: returns the other URI, None to leave a URI out."""

    def changed(load: dict[str, Any]) -> bool:
        before = load["sourceUris"]
        load["sourceUris"] = [uri for uri in map(edit, before) if uri]
        return load["sourceUris"] != before

    return job("load", changed)


def without_decorator(load: dict[str, Any]) -> bool:
    """Load into the whole table and not into the partition that `$` names. Returns whether there was a partition."""
    table = load["destinationTable"]
    before, table["tableId"] = table["tableId"], table["tableId"].partition("$")[0]
    return table["tableId"] != before


def rewritten(edit: Callable[[dict[str, Any]], object]) -> Change:
    """The server gives changed answers to copies of objects."""

    def changed(call: Call, content: Any) -> bool:
        if "/rewriteTo/" not in call.url:
            return False
        edit(content)
        return True

    return Change(answer=changed)


def shown_rows() -> Change:
    """Row access policies hide no rows."""

    def request(call: Call) -> bool:
        if call.method != "POST" or "/rowAccessPolicies" not in call.url or call.body["filterPredicate"] == "TRUE":
            return False
        call.body["filterPredicate"] = "TRUE"
        return True

    return Change(request)


def fresh_job_ids() -> Change:
    """The server runs jobs under other ids than they were sent with."""

    def request(call: Call) -> bool:
        reference = (call.body or {}).get("jobReference", {}) if call.method == "POST" else {}
        if not reference.get("jobId"):
            return False
        reference["jobId"] += uuid.uuid4().hex[:8]
        return True

    return Change(request)


def repeated_job_ids(step: str) -> Change:
    """The server runs a second job under the id of an earlier one of this step."""
    seen: set[str] = set()

    def request(call: Call) -> bool:
        reference = (call.body or {}).get("jobReference", {}) if call.method == "POST" else {}
        name = reference.get("jobId", "")
        if not re.search(f"-{step}-\\d+$", name):
            return False
        if name not in seen:
            seen.add(name)
            return False
        reference["jobId"] += uuid.uuid4().hex[:8]
        return True

    return Change(request)


def expiration(milliseconds: int | None) -> Change:
    """Tables get another partition expiration than the one that was asked for."""

    def request(call: Call) -> bool:
        partitioning = (call.body or {}).get("timePartitioning", {}) if call.method == "POST" else {}
        if "expirationMs" not in partitioning:
            return False
        partitioning["expirationMs"] = milliseconds and str(milliseconds)
        return True

    return Change(request)


def keeps_replaced_policies() -> Change:
    """A clone also has the policies that were added to the table that it replaces."""
    added: list[dict[str, Any]] = []

    def request(call: Call) -> bool:
        if call.method == "POST" and "/carried_target/rowAccessPolicies" in call.url:
            added.append(call.body)
        return False

    def changed(call: Call, content: Any) -> bool:
        if call.method != "GET" or "/carried_target/rowAccessPolicies" not in call.url:
            return False
        content.setdefault("rowAccessPolicies", []).extend(added)
        return bool(added)

    return Change(request, changed)


def uploaded(edit: Callable[[dict[str, Any]], object]) -> Change:
    """The server gives changed answers to uploads."""

    def changed(call: Call, content: Any) -> bool:
        if call.method != "POST" or "/upload/" not in call.url:
            return False
        edit(content)
        return True

    return Change(answer=changed)


def selected(expression: str, column: str) -> Change:
    """The column of a published table has other values than were loaded."""
    return sql(r"SELECT \* FROM (\S+engines_\d+)", rf"SELECT * REPLACE ({expression} AS {column}) FROM \1")


def of_exports(expression: str, column: str) -> Change:
    """The column of a table that was loaded from exported files has other values."""
    return sql(r"SELECT \* FROM (\S+engines_\d+_back)", rf"SELECT * REPLACE ({expression} AS {column}) FROM \1")


def truncating(load: dict[str, Any]) -> bool:
    load["writeDisposition"] = "WRITE_TRUNCATE"
    return True


def without_enums(load: dict[str, Any]) -> bool:
    return load.get("parquetOptions", {}).pop("enumAsString", None) is not None


def untagged(table: dict[str, Any]) -> None:
    for field in (table.get("schema") or {}).get("fields", ()):
        field.pop("policyTags", None)


def whole_table(extract: dict[str, Any]) -> bool:
    return without_decorator({"destinationTable": extract["sourceTable"]})


def patched(edit: Callable[[dict[str, Any]], object], path: str = "/tables/") -> Change:
    """The server overlooks a part of PATCH requests whose address matches `path`, by default changes of tables."""

    def request(call: Call) -> bool:
        if call.method != "PATCH" or not re.search(path, call.url):
            return False
        before = json.dumps(call.body)
        edit(call.body)
        return json.dumps(call.body) != before

    return Change(request)


def permissions(granted: str) -> Change:
    """The server says that the caller has the permission `granted`, although it does not."""

    def changed(call: Call, content: Any) -> bool:
        if ":testIamPermissions" not in call.url:
            return False
        content["permissions"] = [*content.get("permissions", []), granted]
        return True

    return Change(answer=changed)


def without_default_values(table: dict[str, Any]) -> None:
    for field in table["schema"]["fields"]:
        field.pop("defaultValueExpression", None)


def without_parameters(table: dict[str, Any]) -> None:
    for field in table["schema"]["fields"]:
        field.pop("maxLength", None)


def still_required(table: dict[str, Any]) -> None:
    """The server overlooks that nested columns become NULLABLE."""
    for field in table["schema"]["fields"]:
        for inner in field.get("fields", ()):
            inner["mode"] = "REQUIRED"


def without_table_access() -> Change:
    """The server ignores IAM policies of tables: it accepts every policy and returns none."""

    def request(call: Call) -> bool:
        before = call.url
        call.url = re.sub(":[gs]etIamPolicy", "", before)
        if call.url != before:
            call.method, call.body = "GET", None
        return call.url != before

    return Change(request)


def together(*changes: Change) -> Change:
    """The server does all of this."""
    return Change(
        lambda call: any([change.request(call) for change in changes]),
        lambda call, content: any([change.answer(call, content) for change in changes]),
    )
