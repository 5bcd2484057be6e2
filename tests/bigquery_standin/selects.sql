-- literals
SELECT 1, 1.5, 'a', TRUE, NULL, 1e3, -5, b'abc'
--> (1, 1.5, 'a', True, None, 1000.0, -5, b'abc')
SELECT r'\d', 'a\nb', 'a\\b', 'it\'s', 'tab\t'
--> ('\\d', 'a\nb', 'a\\b', "it's", 'tab\t')
SELECT DATE '2020-01-02', DATETIME '2020-01-02 03:04:05', TIMESTAMP '2020-01-02 03:04:05+02', NUMERIC '1.5'
--> (date(2020, 1, 2), civil(2020, 1, 2, 3, 4, 5), utc(2020, 1, 2, 1, 4, 5), Decimal('1.5'))

-- division
SELECT 7/2, 8/8, DIV(7, 2), DIV(-7, 2), MOD(-7, 3), 2 + 3 * 4, 10 - 3 - 2
--> (3.5, 1.0, 3, -3, -1, 14, 5)
SELECT SAFE_DIVIDE(1, 0), SAFE_DIVIDE(6, 4), SAFE_DIVIDE(NULL, 1)
--> (None, 1.5, None)
SELECT SUM(x) / COUNT(*) FROM UNNEST([1, 2]) x
--> (1.5,)
SELECT (SELECT SUM(e.b) FROM UNNEST(s) AS e), ARRAY(SELECT e.a FROM UNNEST(s) AS e WHERE e.b > 1), (SELECT COUNT(*) FROM UNNEST(n) AS x) FROM (SELECT [STRUCT('x' AS a, 1 AS b), STRUCT('y' AS a, 2 AS b)] AS s, [7] AS n)
--> (3, ['y'], 1)

-- numbers
SELECT ROUND(2.5), ROUND(-2.5), ROUND(2.345, 2), TRUNC(-2.7), CEIL(1.2), FLOOR(-1.2), ABS(-3)
--> (3.0, -3.0, 2.35, -2.0, 2.0, -2.0, 3)
SELECT 5 & 3, GREATEST(1, NULL), IS_NAN(1.0)
--> (1, None, False)
SELECT NUMERIC '1.5' + NUMERIC '2', NUMERIC '1.5' * 2
--> (Decimal('3.5'), Decimal('3'))
--   "Data types", decimal types: halves are rounded away from zero at the ninth decimal digit
SELECT x * x, x * y, x * NUMERIC '-0.000000001', x * 3, x * z, z * z, 2 * 3, n * n, x * y = y FROM (SELECT NUMERIC '0.5' AS x, NUMERIC '0.000000001' AS y, 0.1 AS z, 7 AS n)
--> (Decimal('0.25'), Decimal('1E-9'), Decimal('-1E-9'), Decimal('1.5'), 0.05, 0.010000000000000002, 6, 49, True)

-- null order
SELECT a FROM UNNEST([3.5, NULL, CAST('nan' AS FLOAT64), CAST('-inf' AS FLOAT64)]) a ORDER BY a
--> (None,), (NAN,), (-INFINITY,), (3.5,)
SELECT a FROM UNNEST([3.5, NULL, CAST('nan' AS FLOAT64), CAST('-inf' AS FLOAT64)]) a ORDER BY a DESC
--> (3.5,), (-INFINITY,), (NAN,), (None,)
SELECT a FROM UNNEST([3, NULL, 1]) a ORDER BY a NULLS LAST
--> (1,), (3,), (None,)
SELECT a FROM UNNEST([3, NULL, 1]) a ORDER BY a DESC NULLS FIRST
--> (None,), (3,), (1,)
SELECT a, b FROM (SELECT 1 AS a, 'x' AS b UNION ALL SELECT 2, 'y' UNION ALL SELECT 2, 'a') ORDER BY 1 DESC, b
--> (2, 'a'), (2, 'y'), (1, 'x')

-- names of aliases and of columns
SELECT COALESCE(x, 0) AS x FROM (SELECT x FROM UNNEST([1, NULL, -1]) x) ORDER BY x
--> (-1,), (0,), (1,)
SELECT COALESCE(x, 0) AS x FROM (SELECT x FROM UNNEST([1, NULL, -1]) x) ORDER BY 1
--> (-1,), (0,), (1,)
SELECT DISTINCT COALESCE(x, 0) AS x FROM (SELECT x FROM UNNEST([1, NULL, -1]) x) ORDER BY x
--> (-1,), (0,), (1,)
SELECT y AS x, x AS y FROM (SELECT x, -x AS y FROM UNNEST([1, 2, NULL]) x) ORDER BY x
--> (None, None), (-2, 2), (-1, 1)
SELECT -x AS x FROM (SELECT x FROM UNNEST([1, 2]) x) ORDER BY x + 0
--> (-2,), (-1,)
SELECT -x AS x FROM (SELECT x FROM UNNEST([1, 2]) x) t ORDER BY t.x
--> (-1,), (-2,)
SELECT -x AS x FROM (SELECT x FROM UNNEST([1, 2, -5]) x) QUALIFY ROW_NUMBER() OVER (ORDER BY x) = 1
--> (-2,)
SELECT ABS(x) AS x, COUNT(*) FROM (SELECT x FROM UNNEST([1, 2, -1]) x) GROUP BY x ORDER BY 1
--> (1, 2), (2, 1)
SELECT y AS x, COUNT(*) FROM (SELECT x, ABS(x) AS y FROM UNNEST([1, 2, -1]) x) GROUP BY x ORDER BY x
--> (1, 2), (2, 1)
SELECT (SELECT MAX(y) FROM UNNEST([1, x]) y) AS m, x FROM UNNEST([1, 2]) x ORDER BY m DESC
--> (2, 2), (1, 1)

-- qualify
SELECT k, v FROM (SELECT 'a' AS k, 1 AS v UNION ALL SELECT 'a', 2 UNION ALL SELECT 'b', NULL UNION ALL SELECT 'b', 3) WHERE TRUE QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) = 1 ORDER BY k
--> ('a', 2), ('b', 3)

-- aggregates
SELECT COUNTIF(v > 1), COUNT(v), SUM(v) FROM UNNEST([1]) AS v WHERE v > 5
--> (0, 0, None)
SELECT k, COUNT(*), COUNT(v), COUNT(DISTINCT v), SUM(v), MIN(v), MAX(v), AVG(v), COUNTIF(v > 1) FROM (SELECT 'a' AS k, 1 AS v UNION ALL SELECT 'a', 2 UNION ALL SELECT 'b', NULL UNION ALL SELECT 'b', 3 UNION ALL SELECT 'b', 3) GROUP BY k ORDER BY k
--> ('a', 2, 2, 2, 3, 1, 2, 1.5, 1), ('b', 3, 2, 1, 6, 3, 3, 3.0, 2)
SELECT SUM(v), AVG(v), COUNT(v), ARRAY_AGG(v) IS NULL FROM UNNEST([1]) v WHERE FALSE
--> (None, None, 0, True)
SELECT ARRAY_AGG(v ORDER BY v DESC LIMIT 2), ARRAY_AGG(DISTINCT v IGNORE NULLS ORDER BY v) FROM UNNEST([1, 3, NULL, 2, 2]) v
--> ([3, 2], [1, 2, 3])
SELECT STRING_AGG(v, '-' ORDER BY v), STRING_AGG(DISTINCT v, ',' ORDER BY v) FROM UNNEST(['b', 'a', NULL, 'c', 'a']) v
--> ('a-a-b-c', 'a,b,c')
SELECT LOGICAL_AND(v), LOGICAL_OR(v), ANY_VALUE(7) FROM UNNEST([TRUE, NULL, FALSE]) v
--> (False, True, 7)
SELECT k, SUM(v) s FROM (SELECT 'a' AS k, 1 AS v UNION ALL SELECT 'a', 2 UNION ALL SELECT 'b', 3) GROUP BY 1 HAVING SUM(v) > 2 ORDER BY s, 1
--> ('a', 3), ('b', 3)

-- set operations
(SELECT 1 AS x) UNION ALL (SELECT 2) ORDER BY x LIMIT 1 OFFSET 1
--> (2,)
--   "Query syntax", visibility of aliases: in WHERE a name is a column, never an alias
SELECT x + 1 AS x FROM UNNEST([1, 2, NULL]) x WHERE x > 1
--> (3,)
SELECT t.*, u.x + t.x AS y FROM (SELECT 1 AS x UNION ALL SELECT 2) t CROSS JOIN (SELECT 5 AS x, 6 AS y) u WHERE y = 6 AND t.x = 2
--> (2, 7)
SELECT -x AS x, COUNT(*) AS n FROM UNNEST([1, 1, 2, 3]) x WHERE x IN (SELECT 1 UNION ALL SELECT 3) AND EXISTS (SELECT 1 FROM UNNEST([1, 2]) y WHERE y = x) GROUP BY 1 HAVING n > 1 ORDER BY x
--> (-1, 2)
SELECT a = b, a != b, a IN (b), a.x = b.x FROM (SELECT STRUCT(1 AS x) AS a, STRUCT(1 AS x) AS b)
--> (True, False, True, True)
SELECT * EXCEPT (y) FROM (SELECT 1 AS x, 2 AS y) UNION ALL (SELECT 1 UNION ALL SELECT 1) UNION ALL SELECT 2
--> (1,), (1,), (1,), (2,)

-- from
SELECT a.s FROM (SELECT 'a  b' AS s) a JOIN (SELECT 'a  b' AS s) b ON a.s = b.s AND b.s = 'a  b'
--> ('a  b',)
WITH a AS (SELECT 1 x), b AS (SELECT x + 1 y FROM a) SELECT * FROM a, b
--> (1, 2)
WITH a AS (SELECT 1 x, 2 y, 3 z) SELECT * EXCEPT (y) REPLACE (x * 10 AS x) FROM a
--> (10, 3)
WITH a AS (SELECT 1 x UNION ALL SELECT 2), b AS (SELECT 2 x, 'q' w) SELECT a.x, w FROM a LEFT JOIN b ON a.x = b.x ORDER BY a.x
--> (1, None), (2, 'q')
WITH a AS (SELECT 1 x UNION ALL SELECT 2), b AS (SELECT 2 x, 'q' w) SELECT a.x, b.w FROM a FULL JOIN b ON a.x = b.x ORDER BY 1
--> (1, None), (2, 'q')
WITH a AS (SELECT 1 id, [10, 20] arr UNION ALL SELECT 2, []) SELECT id, e, o FROM a, UNNEST(arr) AS e WITH OFFSET o ORDER BY id, o
--> (1, 10, 0), (1, 20, 1)
WITH a AS (SELECT 1 id, [10, 20] arr UNION ALL SELECT 2, []) SELECT id, e FROM a LEFT JOIN UNNEST(arr) AS e ORDER BY id, e
--> (1, 10), (1, 20), (2, None)
WITH a AS (SELECT [STRUCT(1 AS p, 'x' AS q), STRUCT(2 AS p, 'y' AS q)] arr) SELECT e.p, e.q FROM a, UNNEST(a.arr) AS e ORDER BY e.p
--> (1, 'x'), (2, 'y')
SELECT t.a, t FROM (SELECT [STRUCT(1 AS a, 'x' AS b), STRUCT(2 AS a, NULL AS b)] AS s) AS r, UNNEST(r.s) AS t ORDER BY t.a
--> (1, (1, 'x')), (2, (2, None))

-- conditions
SELECT 1 IN (1, 2), NULL IN (1), 1 IN UNNEST([1, NULL]), 2 IN UNNEST([1, NULL]), 2 NOT IN (1, NULL), 1 IN (SELECT 1)
--> (True, None, True, None, None, True)
SELECT 1 IS NULL, TRUE IS TRUE, NULL IS NOT TRUE, 1 IS DISTINCT FROM NULL, NULL IS NOT DISTINCT FROM NULL, TRUE OR NULL
--> (False, True, True, True, True, True)
SELECT CASE WHEN NULL THEN 1 ELSE 2 END, CASE 3 WHEN 3 THEN 'x' END, IF(NULL, 1, 2), IFNULL(NULL, 3), COALESCE(NULL, 4), NULLIF(1, 1)
--> (2, 'x', 2, 3, 4, None)
SELECT 'abc' LIKE 'a%', 'a_c' LIKE r'a\_c', 'abc' LIKE r'a\_c', 'abc' NOT LIKE 'b%', 5 BETWEEN 1 AND 5
--> (True, True, False, True, True)

-- arrays and structs
SELECT [(SELECT x FROM UNNEST([1]) x WHERE FALSE)][OFFSET(0)], ARRAY(SELECT x FROM UNNEST([1]) x WHERE FALSE)
--> (None, [])
SELECT GENERATE_ARRAY(1, 5, 2), GENERATE_ARRAY(1, 5, NULL) IS NULL
--> ([1, 3, 5], True)
SELECT STRUCT(1 AS a, 'x' AS b).a, [1, 2, 3][OFFSET(0)], [1, 2][ORDINAL(2)], [1, 2][SAFE_OFFSET(5)], [5, 6][1]
--> (1, 1, 2, None, 6)
SELECT STRUCT(1, 'x')
--> ((1, 'x'),)
SELECT (SELECT COUNT(*) FROM UNNEST([1, 2]) x), EXISTS(SELECT 1 FROM UNNEST([1]) x WHERE x = 2), ARRAY(SELECT x * 2 FROM UNNEST([3, 1]) x ORDER BY x)
--> (2, False, [2, 6])
SELECT ARRAY_LENGTH([1, 2]), ARRAY_CONCAT([1], [2, 3]), GENERATE_ARRAY(1, 10, 4), GENERATE_ARRAY(3, 1)
--> (2, [1, 2, 3], [1, 5, 9], [])
SELECT ARRAY_TO_STRING(['a', NULL, 'b'], '-'), ARRAY_TO_STRING(['a', NULL, 'b'], '-', 'N'), SPLIT('a,b'), SPLIT('a-b', '-')
--> ('a-b', 'a-N-b', ['a', 'b'], ['a', 'b'])
SELECT a.b.c FROM (SELECT STRUCT(STRUCT(5 AS c) AS b) AS a)
--> (5,)

-- casts
SELECT CAST('-0x1A' AS INT64), CAST(' +0x1a ' AS INT64), CAST('0x1A' AS INT64)
--> (-26, 26, 26)
SELECT CAST(2.5 AS INT64), CAST(-2.5 AS INT64), CAST(' 12 ' AS INT64), CAST('0x1A' AS INT64), CAST(NULL AS ARRAY<STRUCT<a INT64>>) IS NULL
--> (3, -3, 12, 26, True)
SELECT CAST(1.0 AS STRING), CAST(1e20 AS STRING), CAST(1e-7 AS STRING), CAST(NUMERIC '1.50' AS STRING), CAST(b'abc' AS STRING), CAST(TRUE AS STRING)
--> ('1', '1e+20', '1e-07', '1.5', 'abc', 'true')
SELECT CAST(TIMESTAMP '2020-01-02 03:04:05.5' AS STRING), CAST(DATETIME '2020-01-02 03:04:05.12' AS STRING), STRING(TIMESTAMP '2020-01-02 03:04:05')
--> ('2020-01-02 03:04:05.500+00', '2020-01-02 03:04:05.120', '2020-01-02 03:04:05+00')
SELECT CAST('true' AS BOOL), CAST(0 AS BOOL), CAST('inf' AS FLOAT64), CAST('1.5' AS NUMERIC)
--> (True, False, INFINITY, Decimal('1.5'))
SELECT CAST('2020-1-2' AS DATE), CAST(TIMESTAMP '2020-01-02 23:59:59+00' AS DATE), CAST('2020-01-02T03:04:05Z' AS TIMESTAMP), CAST(DATE '2020-01-02' AS TIMESTAMP)
--> (date(2020, 1, 2), date(2020, 1, 2), utc(2020, 1, 2, 3, 4, 5), utc(2020, 1, 2))

-- dates
SELECT DATE_ADD(DATE '2020-01-31', INTERVAL 1 MONTH), DATE_SUB(DATE '2020-03-31', INTERVAL 1 MONTH), DATE_ADD(DATE '2020-02-29', INTERVAL -1 YEAR), DATE_ADD(DATE '2020-01-31', INTERVAL x QUARTER) FROM UNNEST([1]) x
--> (date(2020, 2, 29), date(2020, 2, 29), date(2019, 2, 28), date(2020, 4, 30))
SELECT DATE_DIFF(DATE '2020-03-01', DATE '2020-02-28', DAY), DATE_DIFF(DATE '2020-01-01', DATE '2019-12-31', YEAR), DATE_DIFF(DATE '2020-01-31', DATE '2020-03-01', MONTH)
--> (2, 1, -2)
SELECT DATE_TRUNC(d, DAY), DATE_TRUNC(d, MONTH), DATE_TRUNC(d, QUARTER), DATE_TRUNC(d, YEAR) FROM (SELECT DATE '2023-12-30' AS d)
--> (date(2023, 12, 30), date(2023, 12, 1), date(2023, 10, 1), date(2023, 1, 1))
SELECT DATE(TIMESTAMP '2020-01-02 23:00:00'), UNIX_DATE(DATE '1970-02-01'), UNIX_DATE(DATE '1969-12-31')
--> (date(2020, 1, 2), 31, -1)

-- timestamps
SELECT TIMESTAMP_ADD(TIMESTAMP '2020-01-01', INTERVAL 90 MINUTE), TIMESTAMP_SUB(TIMESTAMP '2020-01-01', INTERVAL 1 DAY), TIMESTAMP_DIFF(TIMESTAMP '2020-01-01 02:00:00', TIMESTAMP '2020-01-01 00:30:00', HOUR)
--> (utc(2020, 1, 1, 1, 30), utc(2019, 12, 31), 1)
SELECT TIMESTAMP_TRUNC(TIMESTAMP '2020-05-06 07:08:09.123456', HOUR), TIMESTAMP_TRUNC(TIMESTAMP '2020-05-06 07:08:09', MONTH)
--> (utc(2020, 5, 6, 7), utc(2020, 5, 1))
SELECT UNIX_MICROS(ts) FROM UNNEST([TIMESTAMP '2020-05-06 07:08:59.923456', TIMESTAMP '1969-12-31 23:59:59.5']) ts
--> (1588748939923456,), (-500000,)

-- date formats
SELECT FORMAT_DATE('%Y%m%d', DATE '2020-01-02'), FORMAT_DATE('on %F', DATE '2020-01-02')
--> ('20200102', 'on 2020-01-02')
SELECT PARSE_DATE('%Y%m%d', '20200102'), PARSE_DATE('%F', '2020-01-02'), SAFE.PARSE_DATE('%Y-%m-%d', '2020-13-02'), SAFE.PARSE_DATE('%F', NULL), SAFE.PARSE_DATE('%F', '2020-01-02')
--> (date(2020, 1, 2), date(2020, 1, 2), None, None, date(2020, 1, 2))

-- text
SELECT SUBSTR(b'hello', 2), SUBSTR(b'hello', -2), SUBSTR(b'hello', 0, 2), SUBSTR(b'hello', -10, 7), SUBSTR(b'hello', 10), SUBSTR(b'hello', 4, 9), SUBSTR(b'hello', 2, 0)
--> (b'ello', b'lo', b'he', b'hello', b'', b'lo', b'')
SELECT SUBSTR('äöü', 2, 9223372036854775807), SUBSTR('a', 1, CAST(NULL AS INT64)), SUBSTR(CAST('äz' AS BYTES), 2, 1)
--> ('öü', None, b'\xa4')
SELECT SUBSTR('hello', 2), SUBSTR('hello', -2), SUBSTR('hello', 0, 2), SUBSTR('hello', -10, 7), SUBSTR('hello', 10), SUBSTR(NULL, 1)
--> ('ello', 'lo', 'he', 'hello', '', None)
SELECT CONCAT('a', NULL), 'a' || 'b', LENGTH('héé'), LENGTH(b'abc'), BYTE_LENGTH('héé'), REPLACE('abc', '', 'x'), LPAD('a', 3, 'xy'), TRIM('  a '), TRIM('xax', 'x')
--> (None, 'ab', 3, 3, 5, 'abc', 'xya', 'a', 'a')
SELECT REGEXP_EXTRACT('ab', '(z)?b'), REGEXP_EXTRACT('ab', '()b'), REGEXP_EXTRACT('', '^(.*)$'), REGEXP_EXTRACT('', '(z)?'), REGEXP_EXTRACT('', '^$'), REGEXP_EXTRACT('xyztb', '(.)+b')
--> (None, '', '', None, '', 't')
SELECT REGEXP_CONTAINS('abc', 'b'), REGEXP_EXTRACT('abc', 'a(b)'), REGEXP_EXTRACT('abc', 'z'), REGEXP_REPLACE('abc', '(b)', r'[\1]')
--> (True, 'b', None, 'a[b]c')
SELECT TO_HEX(b'abc'), FROM_HEX('616263'), TO_HEX(MD5('a')), TO_BASE64(b'abc'), STARTS_WITH('abc', 'ab'), STRPOS('abc', 'c')
--> ('616263', b'abc', '0cc175b9c0f1b6a831c399e269772661', 'YWJj', True, 3)
SELECT FORMAT('%.16e', x), FORMAT('%.2e', x) FROM UNNEST([0.1, -0.0, 5e-324, 1.7976931348623157e308, CAST('nan' AS FLOAT64), CAST('-inf' AS FLOAT64), NULL, 123456.789]) x
--> ('1.0000000000000001e-01', '1.00e-01'), ('0.0000000000000000e+00', '0.00e+00'), ('4.9406564584124654e-324', '4.94e-324'), ('1.7976931348623157e+308', '1.80e+308'), ('nan', 'nan'), ('-inf', '-inf'), (None, None), ('1.2345678900000000e+05', '1.23e+05')
SELECT TO_JSON_STRING(STRUCT(1 AS a, 'x' AS b, [1, 2] AS c, NULL AS d)), TO_JSON_STRING(NULL), TO_JSON_STRING(DATE '2020-01-01')
--> ('{"a":1,"b":"x","c":[1,2],"d":null}', 'null', '"2020-01-01"')

-- float text
SELECT CAST(1e15 AS STRING), CAST(123456789012345.0 AS STRING), CAST(0.1 AS STRING), CAST(5e-324 AS STRING), CAST(9007199254740993.0 AS STRING), CAST(CAST('-0' AS FLOAT64) AS STRING), CAST(CAST('nan' AS FLOAT64) AS STRING), CAST(CAST('-inf' AS FLOAT64) AS STRING)
--> ('1e+15', '123456789012345', '0.1', '4.94065645841247e-324', '9007199254740992', '0', 'nan', '-inf')

-- sorted by what can fail
SELECT CAST(x AS STRING) AS s FROM UNNEST([2, 1]) x ORDER BY s
--> ('1',), ('2',)
SELECT x / 2 AS half, COUNT(*) AS n FROM UNNEST([4, 2, 4]) x GROUP BY half HAVING n > 0 ORDER BY half DESC
--> (2.0, 2), (1.0, 1)
SELECT CASE WHEN x IS NULL THEN 'n' ELSE CAST(x AS STRING) END FROM UNNEST([1, NULL]) x ORDER BY 1
--> ('1',), ('n',)

-- not a number
SELECT GREATEST(x, 1.5), GREATEST(x, NULL) FROM UNNEST([2.0, CAST('nan' AS FLOAT64)]) x
--> (2.0, None), (NAN, None)
SELECT MIN(x), MAX(x), COUNT(DISTINCT x) FROM UNNEST([CAST('nan' AS FLOAT64), 1.0, CAST('nan' AS FLOAT64)]) x
--> (NAN, NAN, 2)
SELECT MIN(x), MIN(DISTINCT x) FROM UNNEST([3, NULL, 2]) x
--> (2, 2)

-- columns of joined tables
SELECT a.x FROM (SELECT 1 AS x) AS a JOIN (SELECT 1 AS x) AS b ON a.x = b.x
--> (1,)
