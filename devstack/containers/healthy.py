"""Whether a part answers, for the health checks of containers. Light: it runs every few seconds in each of them."""

from devstack.http_calls import Unreachable, call

TIMEOUT_S = 5.0


def answers(url: str, heartbeat: str | None = None) -> bool:
    """Whether `url` answers well, and, given a part's name, whether Airflow calls that part healthy there."""
    try:
        answer = call("GET", url, timeout_s=TIMEOUT_S)
    except Unreachable:
        return False
    if not answer.ok or heartbeat is None:
        return answer.ok
    part = answer.json().get(heartbeat) or {}
    return bool(part.get("status") == "healthy")
