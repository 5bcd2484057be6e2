"""The long runs: processes killed at every step, twelve markers at once, readers during fifty swaps; with a report."""
