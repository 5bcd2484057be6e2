"""Defines the error of the test harness itself; the problems that it finds are no errors."""


class HarnessError(Exception):
    """The harness cannot go on; the message says what to do next."""
