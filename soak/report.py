"""Writes the report of the long tests, as Markdown and as JSON. Both files are written again after every result."""

from __future__ import annotations

import json
import platform
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from soak.kill_matrix import PointResult


@dataclass
class Report:
    """The results so far. `points`: results of the kill matrix. `sections`: results of the other long tests.

    `folder`: where report.md and report.json are written. `abort_reason`: empty unless the long tests were aborted.
    """

    folder: Path
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    points: list[PointResult] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)
    abort_reason: str = ""

    @property
    def markdown_path(self) -> Path:
        return self.folder / "report.md"

    @property
    def is_good(self) -> bool:
        return (
            not self.abort_reason and all(p.is_good for p in self.points) and all(not s.problems for s in self.sections)
        )

    def add_point(self, result: PointResult) -> None:
        self.points.append(result)
        self.write()

    def add_section(self, section: Section) -> None:
        self.sections.append(section)
        self.write()

    def abort(self, reason: str) -> None:
        """Record that the long tests were aborted for this reason."""
        self.abort_reason = reason
        self.write()

    def last_section_lines(self) -> list[str]:
        return _section_lines(self.sections[-1])

    def write(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "report.json").write_text(json.dumps(self.to_json(), indent=1, default=str) + "\n")
        self.markdown_path.write_text("\n".join(self.to_markdown()) + "\n")

    def to_json(self) -> dict[str, Any]:
        return {
            "started_at": self.started_at,
            "machine": platform.platform(),
            "is_good": self.is_good,
            "abort_reason": self.abort_reason,
            "kill_points": [asdict(p) | {"is_good": p.is_good} for p in self.points],
            "sections": [asdict(s) for s in self.sections],
        }

    def to_markdown(self) -> list[str]:
        good = sum(p.is_good for p in self.points)
        verdict = "everything ended well" if self.is_good else "**something went wrong**"
        lines = [f"# Long tests of {self.started_at:%Y-%m-%d %H:%M} UTC: {verdict}", ""]
        if self.points:
            lines += [f"## Kill matrix: {good} of {len(self.points)} points", "", *_point_table(self.points), ""]
        for section in self.sections:
            lines += [*_section_lines(section), ""]
        if self.abort_reason:
            lines += [f"**The run was aborted: {self.abort_reason}**"]
        return lines


@dataclass(frozen=True)
class Section:
    """The result of one long test other than the kill matrix. `facts`, `problems`: sentences for the report."""

    name: str
    facts: tuple[str, ...]
    problems: tuple[str, ...]


def _section_lines(section: Section) -> list[str]:
    heading = f"## {section.name}: {'good' if not section.problems else '**failed**'}"
    return [heading, "", *(f"- {fact}" for fact in section.facts), *(f"- **{p}**" for p in section.problems)]


def _point_table(points: list[PointResult]) -> list[str]:
    lines = [
        "| Point | What was killed | How it recovered | Seconds | Result |",
        "| --- | --- | --- | --- | --- |",
    ]
    for point in points:
        recovered = "-" if point.recovered_s is None else f"{point.recovered_s:.0f} s"
        verdict = "good" if point.is_good else "**" + "; ".join(point.problems) + "**"
        cells = (f"`{point.point}`", f"{point.how}: {point.hit}", point.recovered_by, recovered, verdict)
        lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    return lines


def summary_line(result: PointResult) -> str:
    """The result as one line, for the terminal."""
    verdict = "good" if result.is_good else "FAILED: " + "; ".join(result.problems)
    recovered = "" if result.recovered_s is None else f"recovered in {result.recovered_s:5.1f} s, "
    return f"  {result.point:<36} {recovered}{result.seconds:5.1f} s in all, {verdict}  [{result.recovered_by}]"
