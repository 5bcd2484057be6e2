"""How the demo can fail. The text of each is meant for the person at the terminal."""


class DemoFailed(Exception):
    """The demo did not get where it should; the message says where to look."""
