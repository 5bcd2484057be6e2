"""Looks at a live environment, changes nothing, and says what to mend and how."""
