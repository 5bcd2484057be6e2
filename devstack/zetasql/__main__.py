"""Prints the first syntax error of each SQL file: `python -m devstack.zetasql FILE…`.

Exits with 1 if a file has one, and with 2 if ZetaSQL is unavailable.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from devstack.zetasql.grammar import running_grammar
from devstack.zetasql.install import ZetaSqlUnavailable


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m devstack.zetasql", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="SQL files, one statement or script each")
    files: list[Path] = parser.parse_args(arguments).files
    texts = [(path, path.read_text(encoding="utf-8")) for path in files]
    try:
        with running_grammar() as grammar:
            errors = [(path, error) for path, text in texts if (error := grammar.check(text)) is not None]
    except ZetaSqlUnavailable as error:
        print(f"ZetaSQL is unavailable: {error}", file=sys.stderr)
        return 2
    for path, syntax_error in errors:
        print(f"{path}:{syntax_error}")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
