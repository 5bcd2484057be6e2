"""Runs `python -m benchmarks main|growth|memory|fixed-cost|storage|model|all` from a checkout."""

import sys

from benchmarks.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
