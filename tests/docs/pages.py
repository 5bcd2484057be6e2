"""The pages of the documentation."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), ROOT / "bigquery_standin" / "README.md", *sorted(DOCS.rglob("*.md"))]
