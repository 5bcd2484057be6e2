"""A BigQuery tree written as DuckDB SQL: one handler for each kind of node, and no text without a handler.

Each handler names the parts of its node that it carries out. A node without a handler, or one with a further part
(SAMPLE, PIVOT, a hint), is refused by name, so nothing that SQLGlot can parse is dropped on the way.
"""
