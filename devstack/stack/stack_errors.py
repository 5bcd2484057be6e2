"""Defines the error of the local stack, whose message is shown to the user."""


class StackError(Exception):
    """What was asked for cannot be done, or a part of the stack failed. The message says what to do next."""
