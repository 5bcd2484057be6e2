"""Defines the error that testkit and benchmarks raise when they cannot run. A failed check is not an error."""


class HarnessError(Exception):
    """A test or a long run cannot go on. The message says why."""
