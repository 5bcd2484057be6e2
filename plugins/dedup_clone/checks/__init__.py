"""The checks of a publish: pure functions of a manifest, table metadata and earlier publishes.

The docstring of a function `check_…` is the condition under which the check passes.
"""
