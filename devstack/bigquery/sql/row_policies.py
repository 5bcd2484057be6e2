"""CREATE ROW ACCESS POLICY, DROP ROW ACCESS POLICY and DROP ALL ROW ACCESS POLICIES as statements."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from devstack.bigquery.errors import InvalidQuery
from devstack.bigquery.sql.names import take_table_name
from devstack.bigquery.sql.statements import CreateRowPolicy, DropRowPolicy
from devstack.bigquery.sql.tokens import Cursor


def take_row_policy(cursor: Cursor, replace: bool, take_expression: Callable[..., exp.Expression]) -> CreateRowPolicy:
    """Step over what follows CREATE [OR REPLACE] ROW ACCESS POLICY."""
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    if replace and if_not_exists:
        raise InvalidQuery("CREATE ROW ACCESS POLICY cannot have both OR REPLACE and IF NOT EXISTS")
    name = cursor.identifier()
    cursor.expect("ON")
    table = take_table_name(cursor)
    grantees = _grantees(cursor) if cursor.take("GRANT", "TO") else ()
    cursor.expect("FILTER", "USING")
    cursor.expect("(")
    first = cursor.position
    predicate = take_expression(cursor, ")")
    text = cursor.text[cursor.tokens[first].start : cursor.tokens[cursor.position - 1].end + 1]
    cursor.expect(")")
    return CreateRowPolicy(name, table, grantees, predicate, text, replace, if_not_exists)


def take_dropped_row_policies(cursor: Cursor) -> DropRowPolicy:
    """Step over what follows DROP."""
    if cursor.take("ALL"):
        cursor.expect("ROW", "ACCESS", "POLICIES")
        cursor.expect("ON")
        return DropRowPolicy(None, take_table_name(cursor))
    cursor.expect("ROW", "ACCESS", "POLICY")
    if_exists = cursor.take("IF", "EXISTS")
    name = cursor.identifier()
    cursor.expect("ON")
    return DropRowPolicy(name, take_table_name(cursor), if_exists)


def _grantees(cursor: Cursor) -> tuple[str, ...]:
    cursor.expect("(")
    grantees = [cursor.string()]
    while cursor.take(","):
        grantees.append(cursor.string())
    cursor.expect(")")
    return tuple(grantees)
