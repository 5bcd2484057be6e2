"""Defines the errors of the local stack, whose messages are shown to the user."""


class StackError(Exception):
    """What was asked for cannot be done. The message says what to do next."""


class PartFailed(StackError):
    """A part of the stack did not start or become healthy, or a command for its database failed."""
