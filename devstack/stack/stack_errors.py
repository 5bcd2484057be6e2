"""Errors of the local stack. Their messages are shown to the user."""


class StackError(Exception):
    """The stack cannot do what was asked. The message says what to do next."""


class PartFailed(StackError):
    """A part of the stack did not start or did not become healthy."""


class StackBusy(StackError):
    """Another process is starting or stopping the same stack."""
