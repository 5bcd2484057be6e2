"""What can go wrong with the local stack. The text of each is meant for the person at the terminal."""


class StackError(Exception):
    """The stack cannot do what was asked; the message says what to do next."""


class PartFailed(StackError):
    """One part did not start or did not become healthy."""


class StackBusy(StackError):
    """Another start or stop of the same stack is at work."""
