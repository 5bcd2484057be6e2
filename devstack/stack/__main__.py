"""Command line of the local stack: `python -m devstack.stack up|down`."""

import argparse
import os
import signal
import sys
from functools import partial
from types import FrameType

from devstack.http_calls import Unreachable
from devstack.stack import lifecycle
from devstack.stack.layout import Layout, StackError

INTERRUPTED = 130


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m devstack.stack", description=__doc__)
    parser.add_argument("command", choices=("up", "down"))
    command = parser.parse_args(arguments).command
    layout, log = Layout(os.environ), partial(print, flush=True)
    for signal_number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(signal_number, _interrupt)
    try:
        if command == "up":
            lifecycle.up(layout, os.environ, log)
        else:
            lifecycle.down(layout, log)
    except (StackError, Unreachable) as error:
        print(f"devstack: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        # An interrupted `up` has stopped all parts, also those that ran before.
        print(f"devstack: interrupted{', and the stack is stopped' if command == 'up' else ''}.", file=sys.stderr)
        return INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
