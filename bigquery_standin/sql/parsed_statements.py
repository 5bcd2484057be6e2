"""Makes statements from the trees to which SQLGlot parses DDL of tables and DML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from bigquery_standin.bigquery_errors import InvalidQuery, NotImplementedConstruct
from bigquery_standin.sql.ddl_options import options_of
from bigquery_standin.sql.statements import (
    NOT_MATCHED_BY_TARGET,
    AlterColumn,
    AlterTableSetOptions,
    CreateTable,
    DropTable,
    Insert,
    Mutation,
    TruncateTable,
    clause_kind,
)
from bigquery_standin.sql.syntax import refuse_arguments
from bigquery_standin.sql.transpile import check
from bigquery_standin.sql.type_parser import columns_of, field_of, table_name_of

_LAYOUT = (exp.PartitionedByProperty, exp.ClusterProperty)


def create_table(tree: exp.Create) -> CreateTable:
    """Raises NotImplementedConstruct for unsupported clauses and other objects. Its layout is checked when it runs."""
    if tree.kind != "TABLE":
        raise NotImplementedConstruct(f"CREATE {tree.kind}")
    refuse_arguments(tree, "this kind replace exists properties expression")
    schema = tree.this if isinstance(tree.this, exp.Schema) else None
    columns, primary_key = (None, ()) if schema is None else columns_of(schema)
    properties = tree.args["properties"].expressions if tree.args.get("properties") else []
    query = tree.args.get("expression")
    if query is not None:
        check(query)
    if query is not None and columns is not None:
        raise NotImplementedConstruct("CREATE TABLE with a column list and AS query")
    if query is None and columns is None:
        raise InvalidQuery("Syntax error: Expected a column list, AS query or CLONE")
    return CreateTable(
        table_name_of(tree.this if schema is None else schema.this),
        columns,
        bool(tree.args.get("replace")),
        bool(tree.args.get("exists")),
        *_partitioning(properties),
        _clustering_columns(properties),
        options_of([item for item in properties if not isinstance(item, _LAYOUT)], "table"),
        query,
        primary_key,
    )


def _partitioning(properties: list[exp.Expr]) -> tuple[str | None, bool]:
    """The column, and whether its months are the partitions; else its days are."""
    found = [item.this for item in properties if isinstance(item, exp.PartitionedByProperty)]
    if not found:
        return None, False
    column, by_month = found[0], False
    if isinstance(column, exp.Anonymous) and column.name.upper() == "DATE_TRUNC":
        column, unit = column.expressions
        by_month = unit.name.upper() == "MONTH"
    if not isinstance(column, exp.Identifier | exp.Column) or (column is not found[0] and not by_month):
        raise NotImplementedConstruct(f"PARTITION BY {found[0].sql('bigquery')}")
    return str(column.name), by_month


def _clustering_columns(properties: list[exp.Expr]) -> tuple[str, ...]:
    items = [column for item in properties if isinstance(item, exp.ClusterProperty) for column in item.expressions]
    if not all(isinstance(item, exp.Column) and len(item.parts) == 1 for item in items):
        raise NotImplementedConstruct("CLUSTER BY anything but top-level columns")
    return tuple(item.name for item in items)


def alter_table(tree: exp.Alter) -> AlterTableSetOptions | AlterColumn:
    """ALTER TABLE with SET OPTIONS or one ALTER COLUMN. Raises NotImplementedConstruct for other actions."""
    refuse_arguments(tree, "this kind actions")
    name = table_name_of(tree.this)
    actions = tree.args["actions"]
    action = actions[0]
    if tree.kind != "TABLE" or len(actions) > 1:
        raise NotImplementedConstruct(f"ALTER {tree.kind} with [{len(actions)}] actions")
    if isinstance(action, exp.AlterSet):
        (options,) = action.expressions
        return AlterTableSetOptions(name, options_of(options.expressions, "table"))
    if not isinstance(action, exp.AlterColumn):
        raise NotImplementedConstruct(f"ALTER TABLE {action.sql('bigquery')}")
    kind = action.args.get("dtype")
    if kind is None:
        raise NotImplementedConstruct(f"ALTER TABLE {action.sql('bigquery')}")
    refuse_arguments(action, "this dtype")
    return AlterColumn(name, action.name, field_of(kind, action.name))


def drop_table(tree: exp.Drop) -> DropTable:
    """Raises NotImplementedConstruct for other objects than a table."""
    refuse_arguments(tree, "exists tables kind")
    if tree.kind != "TABLE" or len(tree.args["tables"]) != 1:
        raise NotImplementedConstruct(f"DROP {tree.kind}")
    return DropTable(table_name_of(tree.args["tables"][0]), bool(tree.args.get("exists")))


DmlNode = exp.Insert | exp.Update | exp.Delete | exp.Merge | exp.TruncateTable
# By class of node: its supported arguments.
_SUPPORTED: Mapping[type[exp.Expr], str] = {
    exp.Insert: "this expression",
    exp.Update: "this expressions where",
    exp.Delete: "this where",
    exp.Merge: "this using on whens",
    exp.When: "matched source condition then",
    exp.TruncateTable: "expressions",
}


def refuse_words(tokens: Sequence[Token]) -> None:
    """Refuses what SQLGlot would read as a value: DEFAULT, statements in SET, and VALUES without parentheses."""
    words = ["" if token.token_type is TokenType.STRING else token.text.upper() for token in tokens]
    for position, word in enumerate(words):
        previous, following = words[position - 1 : position], words[position + 1 : position + 2]
        if word == "DEFAULT" and previous in (["="], ["("], [","]):
            raise NotImplementedConstruct("DEFAULT as a value")
        if word == "(" and previous == ["SET"] and following in (["INSERT"], ["UPDATE"], ["DELETE"]):
            raise NotImplementedConstruct("nested DML statement in SET")
        if word == "VALUES" and following and following != ["("]:
            raise InvalidQuery(f'Syntax error: Expected "(" after VALUES but got "{following[0]}"')


def dml_statement_of(
    tree: exp.Insert | exp.Update | exp.Delete | exp.Merge | exp.TruncateTable,
) -> Insert | Mutation | TruncateTable:
    """Raises InvalidQuery for a wrong statement, NotImplementedConstruct for a clause that is not carried out."""
    if isinstance(tree, exp.Delete) and not tree.this:  # DELETE without FROM
        tree.set("this", tree.args["tables"][0])
        tree.set("tables", None)
    for node in tree.find_all(*_SUPPORTED):
        if node.parent is None or isinstance(node, exp.When):
            refuse_arguments(node, _SUPPORTED[type(node)])
    match tree:
        case exp.Insert():
            return _insert(tree)
        case exp.TruncateTable():
            return TruncateTable(table_name_of(tree.expressions[0]))
        case exp.Merge():
            _check_merge(tree)
        case _:
            if tree.args.get("where") is None:
                raise InvalidQuery(f"{tree.key.upper()} must have a WHERE clause: WHERE TRUE means all rows")
            check(tree.args["where"].this)
    table = table_name_of(tree.this)
    mutation = Mutation(tree, table, tree.this.alias or table.table)
    for update in tree.find_all(exp.Update):
        _check_assignments(update, mutation.alias)
    return mutation


def _insert(tree: exp.Insert) -> Insert:
    target, columns = tree.this, []
    if isinstance(target, exp.Schema):
        target, columns = target.this, target.expressions
    refuse_arguments(target, "this db catalog")
    source = tree.args.get("expression")
    if not isinstance(source, exp.Query | exp.Values):
        raise InvalidQuery("Syntax error: INSERT needs VALUES or a query")
    check(source)
    return Insert(table_name_of(target), tuple(column.name for column in columns), tree.args["expression"])


def _check_assignments(update: exp.Update, alias: str) -> None:
    for item in update.expressions:
        column = item.this
        owner = [part.name.lower() for part in column.parts[:-1]] if isinstance(column, exp.Column) else None
        if not isinstance(item, exp.EQ) or owner not in ([], [alias.lower()]):
            raise NotImplementedConstruct("SET of a field of a STRUCT or an element of an array")
        check(item.expression)
    names = sorted(item.this.name.lower() for item in update.expressions)
    if not names:
        raise InvalidQuery("Syntax error: SET without a column")
    for name, following in pairwise(names):
        if name == following:
            raise InvalidQuery(f"Update item {name} overlaps with another one: set each column once")


def _check_merge(tree: exp.Merge) -> None:
    if not isinstance(tree.args["using"], exp.Table | exp.Subquery):
        raise InvalidQuery("Syntax error: the source of MERGE is one table or subquery")
    check(exp.select("*").from_(tree.args["using"]))
    check(tree.args["on"])
    for when in tree.args["whens"].expressions:
        kind, condition, then = clause_kind(when), when.args.get("condition"), when.args["then"]
        if condition is not None:
            check(condition)
        is_insert, is_delete = isinstance(then, exp.Insert), isinstance(then, exp.Var) and then.name.upper() == "DELETE"
        if is_insert != (kind == NOT_MATCHED_BY_TARGET) or not (is_insert or is_delete or isinstance(then, exp.Update)):
            raise InvalidQuery(f"Syntax error: Unexpected {then.sql('bigquery')} after WHEN {kind}")
        if is_insert:
            _check_merge_insert(then)


def _check_merge_insert(insert: exp.Insert) -> None:
    """Checks INSERT in a MERGE. Afterwards `this` has the columns, `expression` the values."""
    if isinstance(insert.this, exp.Var):
        raise NotImplementedConstruct(f"INSERT {insert.this.name} in a MERGE")
    if not insert.expression:  # SQLGlot reads INSERT VALUES (…), without columns, as the columns `VALUES(…)`
        (call,) = insert.this.expressions
        insert.set("expression", exp.Tuple(expressions=call.expressions))
        insert.set("this", exp.Tuple())
    for value in insert.expression.expressions:
        check(value)
