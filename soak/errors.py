"""What can go wrong with a long run itself, apart from what it finds."""


class SoakError(Exception):
    """The run cannot go on; the message says what to do next."""


class Missed(SoakError):
    """The step of a point did not come within the patience: nothing was killed, nothing is proven."""
