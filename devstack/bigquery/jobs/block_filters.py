"""Turns the filters of a query on clustering columns into conditions on the lowest and highest values of a block.

A block is a piece of a clustered table, with rows that are neighbours in the order of the clustering columns.
Only simple comparisons of a column with constants prune blocks: no function of the column, and no other column. The
filters on a clustering column count only if all clustering columns before it have filters, too. Source: "Query
clustered tables", Best practices.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlglot import exp

_LAST_CHARACTER = "\U0010ffff"
# What a comparison becomes when its operands change places.
_MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
}
_WILDCARD = re.compile(r"[%_\\]")


def conjuncts(condition: exp.Expr) -> list[exp.Expr]:
    """The conditions that the condition joins by AND; only the condition itself if it joins none."""
    return list(condition.flatten()) if isinstance(condition, exp.And) else [condition]


def block_conditions(
    where: exp.Expression, alias: str, clustering: Sequence[str], constants: Collection[str]
) -> list[exp.Condition]:
    """Conditions on a block: if one of them is not true, no row of the block fulfils `where`.

    They refer to the lowest and highest value of clustering column N (counted from 0) in the block as `low_N` and
    `high_N`; `nulls_N` is true if the column has a NULL there. `alias`: the table's alias in the query. `constants`:
    the names of script variables, in lower case.
    """
    found: list[exp.Condition] = []
    for position, name in enumerate(clustering):
        column = _Column(alias, name.lower(), position, frozenset(constants))
        usable = [
            condition for node in conjuncts(where.this) if (condition := column.condition(node.unnest())) is not None
        ]
        if not usable:
            break
        found += usable
    return found


@dataclass(frozen=True)
class _Column:
    """One clustering column of the table `alias`. `name`: in lower case. `position`: among the clustering columns."""

    alias: str
    name: str
    position: int
    constants: frozenset[str]

    def condition(self, node: exp.Expr) -> exp.Condition | None:
        """The condition on a block's bounds that follows from `node`; None if `node` prunes nothing."""
        if isinstance(node, exp.And | exp.Or):
            operands = [self.condition(operand.unnest()) for operand in (node.left, node.right)]
            usable = [condition for condition in operands if condition is not None]
            if isinstance(node, exp.Or):
                return exp.or_(*usable) if len(usable) == 2 else None
            return exp.and_(*usable) if usable else None
        if isinstance(node, exp.EQ | exp.GT | exp.GTE | exp.LT | exp.LTE):
            return self._comparison(node)
        if not self._is_column(node.this):
            return None
        if isinstance(node, exp.Between):
            low, high = node.args["low"], node.args["high"]
            return self._range(low, high) if self._is_constant(low) and self._is_constant(high) else None
        if isinstance(node, exp.In) and node.expressions and all(self._is_constant(item) for item in node.expressions):
            return exp.or_(*(self._range(item, item) for item in node.expressions))
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            return self._bound("nulls")
        if isinstance(node, exp.Like) and node.expression.is_string:
            prefix = _WILDCARD.split(node.expression.name)[0]
            ends = exp.Literal.string(prefix), exp.Literal.string(prefix + _LAST_CHARACTER)
            return self._range(*ends) if prefix else None
        return None

    def _comparison(self, node: exp.EQ | exp.GT | exp.GTE | exp.LT | exp.LTE) -> exp.Condition | None:
        kind, constant = type(node), node.expression
        if not self._is_column(node.this):
            if not self._is_column(node.expression):
                return None
            kind, constant = _MIRRORED.get(kind, kind), node.this  # type: ignore[assignment]
        if not self._is_constant(constant):
            return None
        if kind is exp.EQ:
            return self._range(constant, constant)
        return kind(this=self._bound("high" if kind in (exp.GT, exp.GTE) else "low"), expression=constant.copy())

    def _range(self, low: exp.Expr, high: exp.Expr) -> exp.Condition:
        """The condition that the block may have a value from `low` to `high`."""
        reaches_low = exp.GTE(this=self._bound("high"), expression=low.copy())
        return exp.and_(reaches_low, exp.LTE(this=self._bound("low"), expression=high.copy()))

    def _bound(self, which: str) -> exp.Column:
        """The column with one of the block's bounds. `which`: low, high or nulls."""
        return exp.column(f"{which}_{self.position}")

    def _is_column(self, node: exp.Expr | None) -> bool:
        return isinstance(node, exp.Column) and node.table == self.alias and node.name.lower() == self.name

    def _is_constant(self, node: exp.Expr) -> bool:
        if any(node.find_all(exp.Subquery, exp.Select, exp.Window)):
            return False
        return all(not column.table and column.name.lower() in self.constants for column in node.find_all(exp.Column))
