"""A name that test_killed_anywhere.py uses. Delete this file once it does not."""

from __future__ import annotations

from tests.contract.publish.existing_tables import exported_rows as exported_rows
