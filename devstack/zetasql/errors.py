"""Why ZetaSQL cannot be asked at all; what it answers is not an error of this kind."""

from __future__ import annotations


class ZetaSqlUnavailable(RuntimeError):
    """The service cannot be installed or started here: the message says what is missing."""
