"""Names that test_killed_anywhere.py uses. Delete this file once it does not."""

from __future__ import annotations

from tests.contract.publish.existing_tables import as_text as as_text
from tests.contract.publish.existing_tables import select as select
