"""Writes a BigQuery syntax tree as DuckDB SQL, with one handler for each class of node.

Each handler states which SQLGlot arguments of its node it supports. A node without a handler, or with another argument
(SAMPLE, PIVOT, a hint), is refused by name, so that nothing that SQLGlot parses is silently ignored.
"""
