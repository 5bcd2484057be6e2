"""Each moment matches its requests and no others. The points of the kill matrix cover every process and every step."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from soak import kill_moments, kill_points
from soak.command import main
from soak.kill_points import Victim
from testkit.proxied_request import ProxiedRequest, Service

FEED = "worked_example"
STEPS = ("notice", "resolve", "dedup", "load", "check", "swap", "commit", "prune")


def upload(name: str, content: str = "{}") -> ProxiedRequest:
    body = f'--x\r\ncontent-type: application/json\r\n\r\n{{"name": "{name}"}}\r\n--x\r\n\r\n{content}\r\n--x--'
    target = "/upload/storage/v1/b/state/o?uploadType=multipart&ifGenerationMatch=0"
    return ProxiedRequest(Service.STORAGE, "POST", target, body.encode())


def current_object(intent: object) -> str:
    return json.dumps({"feed": FEED, "intent": intent}, sort_keys=True, indent=1)


def insertion(step: str) -> ProxiedRequest:
    job = {"jobReference": {"jobId": f"dedup_clone-{FEED}-00000004-a1b2c3-{step}-1"}}
    return ProxiedRequest(Service.BIGQUERY, "POST", "/bigquery/v2/projects/local-dev/jobs", json.dumps(job).encode())


def read_of_landed_file(api: str, query: str) -> ProxiedRequest:
    name = f"{FEED}%2Fsnapshot_id%3D7%2Fdate%3D2026-01-01%2Fp.parquet"
    return ProxiedRequest(Service.STORAGE, "GET", f"{api}/b/landing/o/{name}{query}", b"")


def matching_moments(request: ProxiedRequest) -> list[str]:
    return [m.name for m in kill_moments.ALL if m.service is request.service and m.matches(FEED, request)]


@pytest.mark.parametrize(
    ("request_", "names"),
    [
        (upload(f"{FEED}/arrivals/7-99.json"), ["notice.registering", "notice.registered"]),
        (
            upload(f"{FEED}/CURRENT", current_object({"attempt": "x", "jobs": []})),
            ["resolve.leasing", "resolve.leased"],
        ),
        (upload(f"{FEED}/CURRENT", current_object({"attempt": "x", "jobs": ["y"]})), []),
        (upload(f"{FEED}/CURRENT", current_object(None)), ["commit.current", "commit.committed"]),
        (upload(f"{FEED}/attempts/00000004-a/request.json"), ["resolve.requesting"]),
        (upload(f"{FEED}/attempts/00000004-a/candidate.json"), ["dedup.writing_candidate", "dedup.candidate_written"]),
        (upload(f"{FEED}/STAGING", '"state": "loading"'), ["load.beginning"]),
        (upload(f"{FEED}/STAGING", '"state": "loaded"'), ["load.recording"]),
        (upload(f"{FEED}/ledger/00000004-a.json"), ["commit.ledger"]),
        (upload(f"{FEED}/manifests/00000004.json"), ["commit.manifest"]),
        (upload(f"{FEED}/manifests/00000004.files.json"), []),
        (upload("other_feed/CURRENT", current_object(None)), []),
        (insertion("swap"), ["swap.inserting", "swap.running", "swap.committed"]),
        (insertion("load"), ["load.inserting", "load.running", "load.ended"]),
        (
            ProxiedRequest(Service.STORAGE, "GET", f"/storage/v1/b/landing/o?prefix={FEED}%2F&delimiter=%2F", b""),
            ["notice.waiting"],
        ),
        (read_of_landed_file("/storage/v1", ""), ["dedup.examining"]),
        (read_of_landed_file("/storage/v1", "?projection=noAcl&prettyPrint=false"), []),
        (read_of_landed_file("/download/storage/v1", "?alt=media"), []),
        (
            ProxiedRequest(
                Service.STORAGE,
                "POST",
                f"/upload/storage/v1/b/state/o?uploadType=resumable&name={FEED}%2Fdata%2F4-a%2Fdate%3D2026-01-01%2Fp.parquet",
                b"",
            ),
            ["dedup.writing"],
        ),
        (
            ProxiedRequest(Service.STORAGE, "DELETE", f"/storage/v1/b/state/o/{FEED}%2Fdata%2F1-a%2Fp.parquet", b""),
            ["prune.deleting", "prune.deleted"],
        ),
    ],
)
def test_a_moment_matches_its_request(request_: ProxiedRequest, names: list[str]) -> None:
    assert matching_moments(request_) == names


def test_each_step_has_moments_in_the_order_of_the_protocol() -> None:
    assert tuple(dict.fromkeys(m.step for m in kill_moments.ALL)) == STEPS


def test_every_process_is_killed_and_tasks_and_servers_at_every_step() -> None:
    points = kill_points.all_points()
    assert {p.victim for p in points} == set(Victim)
    assert all(count == 1 for count in Counter(p.name for p in points).values())
    for victim in (Victim.TASK, Victim.SCHEDULER, Victim.TRIGGERER, Victim.BIGQUERY, Victim.STORAGE):
        assert {p.moment.step for p in points if p.victim is victim} == set(STEPS), victim


def test_points_are_chosen_by_name_moment_step_or_victim() -> None:
    assert [p.name for p in kill_points.select_points("swap.committed:task")] == ["swap.committed:task"]
    assert {p.moment.step for p in kill_points.select_points("commit")} == {"commit"}
    assert {p.victim for p in kill_points.select_points("scheduler")} == {Victim.SCHEDULER}
    assert kill_points.select_points("") == kill_points.all_points()
    with pytest.raises(ValueError, match=r"point \[nonsense\] is unknown"):
        kill_points.select_points("nonsense")


def test_the_documentation_counts_the_points_and_the_command_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    points = kill_points.all_points()
    assert f"({len(points)} points)" in (Path(__file__).parents[3] / "docs" / "soak.md").read_text()
    assert main(["kill", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [point.name for point in points]
    assert all(point.moment.description in line for point, line in zip(points, lines, strict=True))
