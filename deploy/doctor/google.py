"""Read-only questions to Google's REST APIs, with the person's own credentials."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from dedup_clone.contract.errors import DedupCloneError

TIMEOUT_S = 30


class Answered(Protocol):
    """The part of an HTTP library's response that is used here."""

    status_code: int

    def json(self) -> Any: ...


class Session(Protocol):
    """The part of `google.auth.transport.requests.AuthorizedSession` that is used here."""

    def request(self, method: str, url: str, *, params: Mapping[str, str], json: Any, timeout: float) -> Answered: ...


class Refused(DedupCloneError):
    """The API did not answer the question. `status` as in HTTP, `message` in Google's words."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"status [{status}]: {message}")
        self.status = status


class Google:
    """Every question is a GET, or the POST that reads a policy."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def get(self, url: str, **parameters: str) -> dict[str, Any]:
        """Raises Refused, status 404 for what does not exist."""
        return self._ask("GET", url, parameters, None)

    def items(self, url: str, key: str, **parameters: str) -> Iterator[dict[str, Any]]:
        """All of a list, page after page."""
        while True:
            page = self.get(url, **parameters)
            yield from page.get(key, [])
            if not page.get("nextPageToken"):
                return
            parameters["pageToken"] = page["nextPageToken"]

    def policy(self, url: str) -> dict[str, Any]:
        """The policy that `…:getIamPolicy` reads."""
        return self._ask("POST", url, {}, {"options": {"requestedPolicyVersion": 3}})

    def _ask(self, method: str, url: str, parameters: Mapping[str, str], body: Any) -> dict[str, Any]:
        answer = self._session.request(method, url, params=parameters, json=body, timeout=TIMEOUT_S)
        try:
            content = answer.json()
        except ValueError:
            content = {}
        if answer.status_code != 200:
            error = content.get("error", {}) if isinstance(content, dict) else {}
            raise Refused(answer.status_code, str(error.get("message", "no message")))
        return dict(content)
