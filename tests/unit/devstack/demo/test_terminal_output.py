import io
from dataclasses import replace
from datetime import UTC, date, datetime

from devstack.demo import terminal_output
from devstack.demo.before_and_after import ComparedRow, Row, RowChange
from devstack.demo.ledger_record import LedgerEntry

ONE = LedgerEntry(
    feed="product_attributes",
    snapshot_id=1234,
    generation=1200,
    run_id="publish__1234__5",
    arrived_at=datetime(2026, 3, 1, 10, tzinfo=UTC),
    lag_s=41.26,
    rows=104_000,
    new_rows=26,
    changed_rows=52,
    kept_rows=26,
    phases={"resolve": 1.0, "dedup": 12.34},
)
KEY = (date(2026, 3, 1), 301865, 2072, 1)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_publishes_show_arrival_lag_and_counts_within_the_width() -> None:
    head, line, phases = terminal_output.publishes([ONE])
    assert line.split() == (
        ["product_attributes", "1234", "2026-03-01", "10:00:00", "41.3", "s", "104,000", "26", "52", "26"]
    )
    assert phases.strip() == "dedup 12.3; resolve 1.0"
    assert max(map(len, (head, line, phases))) <= terminal_output.WIDTH


def test_changes_that_were_not_compared_are_not_called_none() -> None:
    _, line, _ = terminal_output.publishes([replace(ONE, changed_rows=None)])
    assert line.split()[-4:] == ["104,000", "26", "?", "26"]


def test_many_phases_are_shown_in_several_lines() -> None:
    phases = {f"phase_{n}": 1.0 for n in range(40)}
    lines = terminal_output.publishes([replace(ONE, phases=phases)])
    assert max(map(len, lines)) <= terminal_output.WIDTH
    assert all(any(f"{name} 1.0" in line for line in lines) for name in phases)


def test_rows_are_marked_with_old_and_new_values() -> None:
    before, after = Row(KEY, 20, 1), Row(KEY, 25, 2)
    lines = terminal_output.compared_rows(
        [ComparedRow(RowChange.CHANGED, before, after), ComparedRow(RowChange.NEW, None, after)]
    )
    assert "20 -> 25" in lines[1]
    assert "1 -> 2" in lines[1]
    assert lines[1].endswith("changed")
    assert "->" not in lines[2]
    assert lines[-1].strip() == "1 changed, 1 new, 0 kept-missing, 0 equal"


def test_long_table_says_how_many_rows_it_leaves_out() -> None:
    lines = terminal_output.plain_rows([Row(KEY, value, 1) for value in range(terminal_output.MAX_ROWS_SHOWN + 7)])
    assert len(lines) == terminal_output.MAX_ROWS_SHOWN + 2
    assert "7 more" in lines[-1]


def test_progress_overwrites_its_line_on_a_terminal_and_clears_it() -> None:
    output = Terminal()
    progress = terminal_output.Progress(output)
    progress.update("a long line of text " * 10)
    progress.update("short")
    progress.clear()
    assert "\n" not in output.getvalue()
    last_line = output.getvalue().split("\r")[-2]
    assert last_line.strip() == ""
    assert max(map(len, output.getvalue().split("\r"))) <= terminal_output.WIDTH


def test_progress_elsewhere_prints_only_what_is_new() -> None:
    output = io.StringIO()
    progress = terminal_output.Progress(output)
    for text in ("one", "one", "two", "two"):
        progress.update(text)
    assert [line.split()[-1] for line in output.getvalue().splitlines()] == ["one", "two"]
