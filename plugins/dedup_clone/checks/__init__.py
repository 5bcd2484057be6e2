"""Checks: pure functions from evidence (manifest, observed tables, ledger) to verdicts."""
