"""The sandbox is deleted whatever happens, and the report tells what is known of each rule."""

from __future__ import annotations

import pytest
from google.api_core.exceptions import Forbidden, ServiceUnavailable
from google.auth.exceptions import RefreshError

from tests.conformance.rules import Verdict, verdict_of
from tests.conformance.sandbox import Sandbox, Servers, throwaway


def left(sandbox: Sandbox) -> list[str]:
    return [
        *(d.dataset_id for d in sandbox.client.list_datasets() if d.dataset_id == sandbox.name),
        *(b.name for b in sandbox.storage.list_buckets() if b.name.startswith(sandbox.bucket.name)),
    ]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), AssertionError()])
def test_nothing_is_left_of_a_run_that_ends_early(servers: Servers, error: BaseException) -> None:
    def run() -> None:
        with throwaway(servers) as sandbox:
            sandbox.new_table("left", [(sandbox.today, 1, 1)])
            made.append(sandbox)
            assert len(left(sandbox)) == 3
            raise error

    made: list[Sandbox] = []
    with pytest.raises(type(error)):
        run()
    assert left(made[0]) == []


def test_a_missing_right_or_service_says_nothing_about_a_rule() -> None:
    for error in (Forbidden("no right"), ServiceUnavailable("busy"), RefreshError("no login"), OSError()):
        assert verdict_of(error) is Verdict.NOT_TRIED
    assert verdict_of(AssertionError()) is Verdict.DID_NOT_HOLD
    assert verdict_of(None) is Verdict.HELD
