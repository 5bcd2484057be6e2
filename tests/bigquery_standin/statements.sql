-- tables
CREATE TABLE d.t (day DATE, k INT64) PARTITION BY DATE_TRUNC(day, MONTH) OPTIONS (partition_expiration_days = 100000); INSERT d.t VALUES (DATE '2026-01-01', 1), (DATE '2026-01-31', 2), (DATE '2026-02-01', 3); DELETE FROM d.t WHERE day = '2026-01-31'; SELECT partition_id, total_rows FROM d.INFORMATION_SCHEMA.PARTITIONS ORDER BY partition_id
--> ('202601', 1), ('202602', 1)
CREATE TABLE d.s (day DATE, k INT64) PARTITION BY DATE_TRUNC(day, MONTH); INSERT d.s VALUES (DATE '2026-01-31', 2), (DATE '2026-02-01', 3); CREATE TABLE d.t CLONE d.s; SELECT k FROM d.t WHERE day > '2026-01-15' ORDER BY k
--> (2,), (3,)
CREATE TABLE d.t (ts TIMESTAMP, k INT64) PARTITION BY TIMESTAMP_TRUNC(ts, HOUR); INSERT d.t VALUES (TIMESTAMP '2026-01-01 23:59:59.999999+00', 1), (TIMESTAMP '2026-01-02 01:30:00+02', 2), (TIMESTAMP '2026-01-02 00:00:00+00', 3), (NULL, 4); DELETE FROM d.t WHERE DATE(ts, 'UTC') = DATE '2026-01-02'; SELECT partition_id, total_rows FROM d.INFORMATION_SCHEMA.PARTITIONS ORDER BY partition_id
--> ('2026010123', 2), ('__NULL__', 1)
CREATE TABLE d.s (dt DATETIME, k INT64) PARTITION BY DATETIME_TRUNC(dt, DAY); INSERT d.s VALUES (DATETIME '2026-01-01 23:30:00', 1), (DATETIME '2026-01-02 00:00:00', 2), (DATETIME '2026-01-02 23:00:00', 3); CREATE TABLE d.t CLONE d.s; SELECT partition_id, total_rows FROM d.INFORMATION_SCHEMA.PARTITIONS WHERE table_name = 't' ORDER BY partition_id
--> ('20260101', 1), ('20260102', 2)
CREATE TABLE d.t (ts TIMESTAMP, k INT64) PARTITION BY TIMESTAMP_TRUNC(ts, MONTH); INSERT d.t VALUES (TIMESTAMP '2026-01-31 23:00:00+00', 1), (TIMESTAMP '2026-01-01 00:00:00+00', 2); SELECT partition_id, total_rows FROM d.INFORMATION_SCHEMA.PARTITIONS
--> ('202601', 2)
CREATE TABLE d.t (a ARRAY<STRUCT<x INT64, y ARRAY<DATE>>>); INSERT d.t VALUES ([STRUCT(1 AS x, [DATE '2026-01-01'] AS y)]); SELECT a[OFFSET(0)].y[OFFSET(0)] FROM d.t
--> (date(2026, 1, 1),)
CREATE TABLE d.s (k INT64, u INT64); INSERT d.s VALUES (1, 1), (1, 2), (2, 1); CREATE OR REPLACE TABLE d.t AS SELECT * FROM d.s WHERE TRUE QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY u DESC) = 1; SELECT * FROM d.t ORDER BY k
--> (1, 2), (2, 1)
CREATE TABLE d.s (a INT64) OPTIONS (description = 'old'); CREATE OR REPLACE TABLE `local-dev.d.t` CLONE local-dev.d.s OPTIONS (labels = [('generation', '41')], friendly_name = 'a' || 'b'); SELECT table_name, option_name, option_value FROM d.INFORMATION_SCHEMA.TABLE_OPTIONS ORDER BY table_name, option_name
--> ('s', 'description', '"old"'), ('t', 'friendly_name', '"ab"'), ('t', 'labels', '[STRUCT("generation", "41")]')
CREATE TABLE d.s AS SELECT 1 AS a; CREATE TABLE d.t CLONE d.s FOR SYSTEM_TIME AS OF CURRENT_TIMESTAMP(); CREATE TABLE IF NOT EXISTS d.t AS SELECT 2 AS a; SELECT a FROM d.t
--> (1,)
CREATE TABLE d.t (a INT64) OPTIONS (description = 'x', expiration_timestamp = TIMESTAMP '2130-01-01 00:00:00+00'); ALTER TABLE d.t SET OPTIONS (expiration_timestamp = NULL); SELECT option_name, option_value FROM d.INFORMATION_SCHEMA.TABLE_OPTIONS
--> ('description', '"x"')
CREATE TABLE d.t (a INT64, b STRING) OPTIONS (max_staleness = INTERVAL 90 SECOND); SELECT option_value FROM d.INFORMATION_SCHEMA.TABLE_OPTIONS
--> ('0-0 0 0:1:30',)
CREATE TABLE d.t (a INT64); drop table if exists `local-dev.d.t`; DROP TABLE IF EXISTS d.nothing; SELECT COUNT(*) FROM d.INFORMATION_SCHEMA.TABLES
--> (0,)

-- rows
CREATE TABLE d.t (a INT64, b STRING); INSERT INTO d.t (b, a) VALUES ('x', 1), (NULL, 2); INSERT d.t SELECT 3, 'z'; INSERT d.t (a) SELECT 4 AS n; SELECT * FROM d.t ORDER BY a
--> (1, 'x'), (2, None), (3, 'z'), (4, None)
CREATE TABLE d.t (a INT64, s STRUCT<x STRING, `order` INT64>); INSERT d.t VALUES (1, STRUCT('x' AS x, 1 AS `order`)); UPDATE d.t AS x SET x.a = a + 1, s = STRUCT('y' AS x, x.a AS `order`) WHERE TRUE; SELECT a, s.x, s.order FROM d.t
--> (2, 'y', 1)
CREATE TABLE d.t (a INT64); INSERT d.t VALUES (1), (2), (NULL); DELETE FROM d.t x WHERE x.a IS NULL; DELETE d.t WHERE a = 1; SELECT a FROM d.t
--> (2,)
CREATE TABLE d.t (a INT64); INSERT d.t VALUES (1); TRUNCATE TABLE d.t; SELECT COUNT(*) FROM d.t
--> (0,)
CREATE TABLE d.t (k INT64, v INT64); CREATE TABLE d.s (k INT64, v INT64); INSERT d.t VALUES (1, 0), (2, 0), (3, 0); INSERT d.s VALUES (1, 5), (2, 1), (4, 9); MERGE INTO d.t AS x USING d.s AS y ON x.k = y.k WHEN MATCHED AND CASE WHEN y.v > 1 THEN TRUE ELSE FALSE END THEN UPDATE SET v = y.v WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (k, v) VALUES (y.k, IF(y.v > 1, 1, 2)) WHEN NOT MATCHED BY SOURCE AND x.k > 1 THEN UPDATE SET v = NULL; SELECT * FROM d.t ORDER BY k
--> (1, 5), (3, None), (4, 1)
CREATE TABLE d.t (k INT64, v INT64); INSERT d.t VALUES (1, 0); MERGE d.t USING (SELECT 2 AS key) ON FALSE WHEN NOT MATCHED BY TARGET THEN INSERT (k, v) VALUES (key, 3) WHEN NOT MATCHED BY SOURCE THEN DELETE; SELECT * FROM d.t
--> (2, 3)
CREATE TABLE d.t (filename STRING, v INT64); INSERT d.t VALUES ('a', 1), ('b', 2); UPDATE d.t SET v = 3, filename = 'c' WHERE filename = 'a'; DELETE d.t WHERE filename = 'b'; SELECT * FROM d.t
--> ('c', 3)
CREATE TABLE d.t (a INT64); CREATE ROW ACCESS POLICY p ON d.t GRANT TO ('user:a@b.c', 'group:g@b.c') FILTER USING ( a > (1) ); CREATE ROW ACCESS POLICY q ON d.t FILTER USING (TRUE); DROP ALL ROW ACCESS POLICIES ON d.t; SELECT COUNT(*) FROM d.t
--> (0,)
CREATE TABLE d.t (__row STRING, __file STRING, file_row_number STRING); INSERT d.t VALUES ('a', 'b', 'c'); SELECT * FROM d.t
--> ('a', 'b', 'c')

-- scripts
DECLARE a, b INT64 DEFAULT 3; DECLARE c STRING DEFAULT 'x'; DECLARE e DATE; DECLARE f INT64 DEFAULT b + 1; SELECT a, f, c, e IS NULL
--> (3, 4, 'x', True)
DECLARE n INT64 DEFAULT 2; IF CASE WHEN n = 1 THEN TRUE END THEN SELECT 1; ELSE IF n > 1 THEN SELECT 'two'; END IF; END IF
--> ('two',)
ASSERT 1 = (SELECT 1) AS 'someone newer is live'; ASSERT TRUE; SELECT 'passed'
--> ('passed',)
SELECT 1 /* what */ AS a; (SELECT 1) UNION ALL (SELECT 2) ORDER BY 1;
--> (1,), (2,)
WITH a AS (SELECT 1 AS a), b AS (SELECT a.a + 1 AS b FROM a) SELECT b FROM b; WITH t AS (SELECT 5 AS x) SELECT x FROM t
--> (5,)
DECLARE v, y INT64 DEFAULT 7; CREATE TABLE d.t (v INT64); INSERT d.t VALUES (v + y); SELECT MAX(t.v) FROM d.t
--> (14,)

-- refused: notImplemented
--   The second script is refused, after the first one. The name of a variable may be that of a column, too, which wins in BigQuery.
CREATE TABLE d.t AS SELECT 1 AS v ;; DECLARE x INT64 DEFAULT 7; SELECT x FROM d.t
CREATE TABLE d.t AS SELECT 1 AS v ;; DECLARE x INT64 DEFAULT 7; SELECT y + x AS z FROM UNNEST([2, 1]) AS y
CREATE TABLE d.t AS SELECT 1 AS v ;; DECLARE x INT64 DEFAULT 7; IF EXISTS (SELECT 1 FROM d.t WHERE v = x) THEN SELECT 1; END IF
CREATE TABLE d.t AS SELECT 1 AS v ;; DECLARE x INT64 DEFAULT 7; UPDATE d.t SET v = x WHERE TRUE
CREATE TABLE d.t AS SELECT 1 AS v ;; DECLARE x INT64 DEFAULT 7; DELETE FROM d.t WHERE v = x
CREATE TABLE d.t AS SELECT 1 AS v ;; DECLARE x INT64 DEFAULT 7; MERGE d.t USING (SELECT 1 AS n) s ON v = n WHEN NOT MATCHED THEN INSERT (v) VALUES (x)
--   A column that cannot be told from the column that names the actions of a MERGE.
CREATE TABLE d.t (merge_action STRING) ;; MERGE d.t USING (SELECT 'a' AS a) AS s ON FALSE WHEN NOT MATCHED THEN INSERT (merge_action) VALUES (a)
CREATE TABLE d.t (tags ARRAY<STRUCT<x INT64>>, code STRING(3), info STRUCT<x INT64>) ;; ALTER TABLE d.t ALTER COLUMN tags SET DATA TYPE ARRAY<STRUCT<x NUMERIC>>
CREATE TABLE d.t (tags ARRAY<STRUCT<x INT64>>, code STRING(3), info STRUCT<x INT64>) ;; ALTER TABLE d.t ALTER COLUMN code SET DATA TYPE STRING(5)
CREATE TABLE d.t (n INT64, code STRING(3), share NUMERIC(5, 2)); INSERT d.t (n) VALUES (1) ;; INSERT d.t (code) VALUES ('a')

-- refused: invalidQuery
--   Correlated subqueries in a clause of MERGE. Source: "Using data manipulation language (DML)", limitations.
CREATE TABLE d.t (a INT64); CREATE TABLE d.s (a INT64) ;; MERGE d.t AS t USING d.s AS s ON t.a = s.a WHEN MATCHED THEN UPDATE SET a = (SELECT MAX(x) FROM UNNEST([1]) AS x WHERE x = s.a)
CREATE TABLE d.t (a INT64); CREATE TABLE d.s (a INT64) ;; MERGE d.t AS t USING d.s AS s ON t.a = s.a WHEN MATCHED AND EXISTS (SELECT 1 FROM d.s AS r WHERE r.a = t.a) THEN DELETE
CREATE TABLE d.t (tags ARRAY<STRUCT<x INT64>>, info STRUCT<x INT64>) ;; ALTER TABLE d.t ALTER COLUMN nothing SET DATA TYPE INT64
SELECT 1 ;; CREATE TABLE d.`a/b` (n INT64)
SELECT 1 ;; CREATE TABLE d.t (a TIMESTAMP) PARTITION BY a

-- refused: invalid
SELECT 1 ;; CREATE TABLE d.t (a DATE) PARTITION BY TIMESTAMP_TRUNC(a, HOUR)
CREATE TABLE d.t (tags ARRAY<STRUCT<x INT64>>, info STRUCT<x INT64>) ;; ALTER TABLE d.t ALTER COLUMN info SET DATA TYPE STRUCT<y INT64>
SELECT 1 ;; CREATE TABLE d.`a b` (n INT64)
CREATE TABLE d.s (a TIMESTAMP) PARTITION BY TIMESTAMP_TRUNC(a, DAY); CREATE TABLE d.t (a TIMESTAMP) PARTITION BY TIMESTAMP_TRUNC(a, HOUR) ;; CREATE OR REPLACE TABLE d.t CLONE d.s
SELECT 1 ;; CREATE TABLE d.`xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx` (n INT64)
