"""Runs a command, and kills it and its children as soon as standard input ends: `python guarded_command.py COMMAND …`.

The caller keeps the other end of this program's standard input open. That end closes even if the caller is killed, so
no command outlives its caller. This is a program of its own, which no module imports.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading


def main() -> int:
    """Returns the command's exit code, or 128 plus the number of the signal that killed it."""
    process = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, start_new_session=True)

    def kill_at_end_of_input() -> None:
        while os.read(0, 1024):
            pass
        _kill_group(process.pid)

    threading.Thread(target=kill_at_end_of_input, daemon=True).start()
    code = process.wait()
    _kill_group(process.pid)  # children that the command left behind
    return code if code >= 0 else 128 - code


def _kill_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
