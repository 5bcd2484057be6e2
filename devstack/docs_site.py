"""Hooks of MkDocs for `make docs`. They turn links to files outside docs/ into text, and add Mermaid to the site.

`make check` checks that links lead to files that exist, inside and outside docs/.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

# The path at which `make docs` installs the library with npm.
MERMAID = Path(".local/docs/node_modules/mermaid/dist/mermaid.min.js")
_LINK = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+)([^)#]+)(#[^)]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    """Add Mermaid to the site. Otherwise the theme would load it from another server."""
    script = MERMAID.read_bytes()
    files.append(File.generated(config, "javascripts/mermaid.min.js", content=script))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return the page's Markdown without links to files that the site does not have."""
    depth = page.file.src_uri.count("/")

    def name(link: re.Match[str]) -> str:
        if link[2].count("../") <= depth:
            return link[0]
        return link[1] if link[3] in link[1] else f"{link[1]} (`{link[3]}`)"

    return _LINK.sub(name, markdown)
