"""Lists supported statements with their expected syntax trees."""

from __future__ import annotations

from sqlglot import exp

from devstack.bigquery.sql.dialect import parse_tokens
from devstack.bigquery.sql.statements import (
    MATCHED,
    NOT_MATCHED_BY_SOURCE,
    NOT_MATCHED_BY_TARGET,
    AlterTablePrimaryKey,
    AlterTableSetOptions,
    Assert,
    Assignment,
    Call,
    ColumnSpec,
    CreateClone,
    CreateProcedure,
    CreateRowPolicy,
    CreateSchema,
    CreateTable,
    Declare,
    Delete,
    DropProcedure,
    DropRowPolicy,
    DropSchema,
    DropTable,
    If,
    Insert,
    Merge,
    MergeClause,
    MergeDelete,
    MergeInsert,
    MergeUpdate,
    ProcedureParameter,
    Query,
    SetVariable,
    Statement,
    TableName,
    TruncateTable,
    UndropSchema,
    Update,
)
from devstack.bigquery.sql.tokens import TokenCursor, tokenize


def tree(text: str) -> exp.Expression:
    """The SQLGlot tree of a query or expression."""
    tokens = tokenize(text)
    return parse_tokens(tokens, text, TokenCursor(text, tokens).ordinals())


T, S = TableName("t", "d"), TableName("s", "d")

SINGLE: dict[str, tuple[str, Statement]] = {
    "select": ("SELECT 1", Query(tree("SELECT 1"))),
    "with": ("WITH a AS (SELECT 1 AS x) SELECT x FROM a", Query(tree("WITH a AS (SELECT 1 AS x) SELECT x FROM a"))),
    "union in brackets": ("(SELECT 1) UNION ALL (SELECT 2)", Query(tree("(SELECT 1) UNION ALL (SELECT 2)"))),
    "select with comment": ("-- why\nSELECT 1 /* what */;", Query(tree("SELECT 1"))),
    "row access policy": (
        "CREATE OR REPLACE ROW ACCESS POLICY p ON d.t GRANT TO ('user:a@b.c', 'group:g@b.c') FILTER USING ( a > (1) )",
        CreateRowPolicy("p", T, ("user:a@b.c", "group:g@b.c"), tree("a > (1)"), "a > (1)", replace=True),
    ),
    "row access policy without grantees": (
        "CREATE ROW ACCESS POLICY IF NOT EXISTS p ON d.t FILTER USING (TRUE)",
        CreateRowPolicy("p", T, (), tree("TRUE"), "TRUE", if_not_exists=True),
    ),
    "drop row access policy": ("DROP ROW ACCESS POLICY IF EXISTS p ON d.t", DropRowPolicy("p", T, if_exists=True)),
    "drop all row access policies": ("DROP ALL ROW ACCESS POLICIES ON d.t", DropRowPolicy(None, T)),
    "drop table": ("DROP TABLE d.t", DropTable(T)),
    "drop table if exists": ("drop table if exists `p.d.t`", DropTable(TableName("t", "d", "p"), if_exists=True)),
    "drop schema": ("DROP SCHEMA d", DropSchema("d")),
    "undrop schema": ("UNDROP SCHEMA IF NOT EXISTS p.d", UndropSchema("d", True, (), "p")),
    "drop schema cascade": ("DROP SCHEMA IF EXISTS p.d CASCADE", DropSchema("d", True, True, "p")),
    "create schema": (
        "CREATE SCHEMA IF NOT EXISTS `local-dev`.d OPTIONS (location = 'US')",
        CreateSchema("d", True, (("location", tree("'US'")),), "local-dev"),
    ),
    "create table": (
        "CREATE TABLE d.t (a INT64 NOT NULL, b STRING OPTIONS (description = 'what'))",
        CreateTable(T, (ColumnSpec("a", "INT64", "REQUIRED"), ColumnSpec("b", "STRING", description="what"))),
    ),
    "create table with a primary key": (
        "CREATE TABLE d.t (a INT64, b STRING, PRIMARY KEY (b, a) NOT ENFORCED)",
        CreateTable(T, (ColumnSpec("a", "INT64"), ColumnSpec("b", "STRING")), primary_key=("b", "a")),
    ),
    "create table with a key column": (
        "CREATE TABLE d.t (a INT64 PRIMARY KEY NOT ENFORCED NOT NULL, b STRING) "
        "OPTIONS (max_staleness = INTERVAL 10 MINUTE)",
        CreateTable(
            T,
            (ColumnSpec("a", "INT64", "REQUIRED"), ColumnSpec("b", "STRING")),
            options=(("max_staleness", tree("INTERVAL 10 MINUTE")),),
            primary_key=("a",),
        ),
    ),
    "create table with a layout": (
        "CREATE TABLE IF NOT EXISTS d.t (date DATE, k INTEGER, v BIGINT) PARTITION BY date CLUSTER BY k, v "
        "OPTIONS (partition_expiration_days = 730, require_partition_filter = TRUE)",
        CreateTable(
            T,
            (ColumnSpec("date", "DATE"), ColumnSpec("k", "INT64"), ColumnSpec("v", "INT64")),
            if_not_exists=True,
            partition_by="date",
            cluster_by=("k", "v"),
            options=(("partition_expiration_days", tree("730")), ("require_partition_filter", tree("TRUE"))),
        ),
    ),
    "nested columns": (
        "CREATE TABLE d.t (a ARRAY<STRUCT<x INT64 NOT NULL, y ARRAY<DATE>>>)",
        CreateTable(
            T,
            (
                ColumnSpec(
                    "a",
                    "STRUCT",
                    "REPEATED",
                    (ColumnSpec("x", "INT64", "REQUIRED"), ColumnSpec("y", "DATE", "REPEATED")),
                ),
            ),
        ),
    ),
    "create table as": (
        "CREATE OR REPLACE TABLE d.t PARTITION BY date AS SELECT * FROM d.s "
        "QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY update_id DESC) = 1",
        CreateTable(
            T,
            None,
            replace=True,
            partition_by="date",
            query=tree("SELECT * FROM d.s QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY update_id DESC) = 1"),
        ),
    ),
    "clone": ("CREATE TABLE d.t CLONE d.s", CreateClone(T, S)),
    "clone at a time with options": (
        "CREATE OR REPLACE TABLE `p.d.t` CLONE local-dev.d.s FOR SYSTEM_TIME AS OF @at\n"
        "OPTIONS (labels = [('generation', '41')], description = 'x', partition_expiration_days = 730)",
        CreateClone(
            TableName("t", "d", "p"),
            TableName("s", "d", "local-dev"),
            replace=True,
            system_time=tree("@at"),
            options=(
                ("labels", tree("[('generation', '41')]")),
                ("description", tree("'x'")),
                ("partition_expiration_days", tree("730")),
            ),
        ),
    ),
    "clone if not exists": (
        "CREATE TABLE IF NOT EXISTS d.t CLONE d.s FOR SYSTEM_TIME AS OF "
        "TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL 1 HOUR)",
        CreateClone(T, S, if_not_exists=True, system_time=tree("TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL 1 HOUR)")),
    ),
    "alter table": (
        "ALTER TABLE IF EXISTS d.t SET OPTIONS (expiration_timestamp = NULL)",
        AlterTableSetOptions(T, (("expiration_timestamp", tree("NULL")),), if_exists=True),
    ),
    "add primary key": (
        "ALTER TABLE IF EXISTS d.t ADD PRIMARY KEY (a, b) NOT ENFORCED",
        AlterTablePrimaryKey(T, ("a", "b"), if_exists=True),
    ),
    "drop primary key": ("ALTER TABLE d.t DROP PRIMARY KEY", AlterTablePrimaryKey(T, ())),
    "drop primary key if exists": (
        "ALTER TABLE d.t DROP PRIMARY KEY IF EXISTS",
        AlterTablePrimaryKey(T, (), if_key_exists=True),
    ),
    "insert values": (
        "INSERT INTO d.t (a, b) VALUES (1, 'x'), (?, NULL)",
        Insert(
            T,
            ("a", "b"),
            exp.Values(
                expressions=[
                    exp.Tuple(expressions=[tree("1"), tree("'x'")]),
                    exp.Tuple(expressions=[tree("?"), tree("NULL")]),
                ]
            ),
        ),
    ),
    "insert query": ("INSERT d.t SELECT * FROM d.s", Insert(T, (), tree("SELECT * FROM d.s"))),
    "insert columns and query": ("INSERT d.t (a) SELECT 1 AS a", Insert(T, ("a",), tree("SELECT 1 AS a"))),
    "update": (
        "UPDATE d.t SET a = b + 1, s.x = 'y' WHERE TRUE",
        Update(T, "t", (Assignment(("a",), tree("b + 1")), Assignment(("s", "x"), tree("'y'"))), tree("TRUE")),
    ),
    "update of a field with a reserved name": (
        "UPDATE d.t SET s.order = 1 WHERE TRUE",
        Update(T, "t", (Assignment(("s", "order"), tree("1")),), tree("TRUE")),
    ),
    "update from": (
        "UPDATE d.t AS x SET x.a = s.a FROM d.s JOIN d.u AS u ON s.k = u.k WHERE x.k = s.k",
        Update(
            T,
            "x",
            (Assignment(("a",), tree("s.a")),),
            tree("x.k = s.k"),
            tree("SELECT * FROM d.s JOIN d.u AS u ON s.k = u.k"),  # type: ignore[arg-type]
        ),
    ),
    "delete": ("DELETE FROM d.t x WHERE x.a IS NULL", Delete(T, "x", tree("x.a IS NULL"))),
    "delete without from": ("DELETE d.t WHERE a = 1", Delete(T, "t", tree("a = 1"))),
    "truncate": ("TRUNCATE TABLE d.t", TruncateTable(T)),
    "merge": (
        "MERGE INTO d.t AS x USING d.s AS y ON x.k = y.k "
        "WHEN MATCHED AND CASE WHEN y.v > 1 THEN TRUE ELSE FALSE END THEN UPDATE SET v = y.v, w = 1 "
        "WHEN MATCHED THEN DELETE "
        "WHEN NOT MATCHED THEN INSERT (k, v) VALUES (y.k, IF(y.v > 1, 1, 2)) "
        "WHEN NOT MATCHED BY SOURCE AND x.k > 1 THEN UPDATE SET v = NULL",
        Merge(
            T,
            "x",
            tree("SELECT * FROM d.s AS y"),  # type: ignore[arg-type]
            tree("x.k = y.k"),
            (
                MergeClause(
                    MATCHED,
                    tree("CASE WHEN y.v > 1 THEN TRUE ELSE FALSE END"),
                    MergeUpdate((Assignment(("v",), tree("y.v")), Assignment(("w",), tree("1")))),
                ),
                MergeClause(MATCHED, None, MergeDelete()),
                MergeClause(
                    NOT_MATCHED_BY_TARGET,
                    None,
                    MergeInsert(("k", "v"), (tree("y.k"), tree("IF(y.v > 1, 1, 2)"))),
                ),
                MergeClause(NOT_MATCHED_BY_SOURCE, tree("x.k > 1"), MergeUpdate((Assignment(("v",), tree("NULL")),))),
            ),
        ),
    ),
    "merge of a query with whole rows": (
        "MERGE d.t USING (SELECT * FROM d.s) ON FALSE WHEN NOT MATCHED BY TARGET THEN INSERT ROW "
        "WHEN NOT MATCHED BY SOURCE THEN DELETE",
        Merge(
            T,
            "t",
            tree("SELECT * FROM (SELECT * FROM d.s)"),  # type: ignore[arg-type]
            tree("FALSE"),
            (
                MergeClause(NOT_MATCHED_BY_TARGET, None, MergeInsert((), None)),
                MergeClause(NOT_MATCHED_BY_SOURCE, None, MergeDelete()),
            ),
        ),
    ),
    "assert": ("ASSERT (SELECT COUNT(*) FROM d.t) = 1", Assert(tree("(SELECT COUNT(*) FROM d.t) = 1"), None)),
    "assert with message": ("ASSERT 1 = 1 AS 'one'", Assert(tree("1 = 1"), "one")),
}

SCRIPTS: dict[str, tuple[str, tuple[Statement, ...]]] = {
    "procedure": (
        "CREATE OR REPLACE PROCEDURE `p.d.run`(request STRING, IN n ARRAY<INT64>) WITH CONNECTION `p.us.spark` "
        "OPTIONS (engine = 'SPARK') LANGUAGE PYTHON AS r'print()'; CALL p.d.run(@a, [1]); DROP PROCEDURE IF EXISTS d.x",
        (
            CreateProcedure(
                TableName("run", "d", "p"),
                (ProcedureParameter("request", "STRING"), ProcedureParameter("n", "ARRAY<INT64>")),
                ("p", "us", "spark"),
                (("engine", tree("'SPARK'")),),
                "print()",
                replace=True,
            ),
            Call(TableName("run", "d", "p"), (tree("@a"), tree("[1]"))),
            DropProcedure(TableName("x", "d"), if_exists=True),
        ),
    ),
    "call": ("CALL d.run()", (Call(TableName("run", "d"), ()),)),
    "variables": (
        "DECLARE a, b INT64 DEFAULT 3; DECLARE c DEFAULT 'x'; DECLARE d ARRAY<STRUCT<x INT64>>; SET a = b + 1;",
        (
            Declare(("a", "b"), "INT64", tree("3")),
            Declare(("c",), None, tree("'x'")),
            Declare(("d",), "ARRAY<STRUCT<x INT64>>", None),
            SetVariable(("a",), tree("b + 1")),
        ),
    ),
    "branches": (
        "IF CASE WHEN a THEN b END THEN SELECT 1; ELSEIF c THEN IF d THEN SELECT 2; END IF; ELSE SELECT 3; END IF",
        (
            If(
                (
                    (tree("CASE WHEN a THEN b END"), (Query(tree("SELECT 1")),)),
                    (tree("c"), (If(((tree("d"), (Query(tree("SELECT 2")),)),)),)),
                ),
                (Query(tree("SELECT 3")),),
            ),
        ),
    ),
    "guarded swap": (
        "ASSERT @expected = (SELECT 41) AS 'someone newer is live';\nCREATE OR REPLACE TABLE d.t CLONE d.s;",
        (
            Assert(tree("@expected = (SELECT 41)"), "someone newer is live"),
            CreateClone(T, S, replace=True),
        ),
    ),
}
