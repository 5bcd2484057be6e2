-- Purpose: compare one partition of target with the rows that it should have: those of the published files, which the
--   job defines as the external table dedup_clone_published, or those of another table. Rows in any order are equal;
--   each row counts as often as it occurs.
-- Params: @compared_date DATE.
-- Writes: nothing; scans all columns of one partition of each side.  Safe to retry: yes.
SELECT
  IFNULL(SUM(in_target), 0) AS row_count,
  IFNULL(SUM(expected), 0) AS expected_rows,
  IFNULL(SUM(GREATEST(expected - in_target, 0)), 0) AS missing,
  IFNULL(SUM(GREATEST(in_target - expected, 0)), 0) AS surplus
FROM (
  SELECT
    COUNTIF(is_target) AS in_target,
    COUNTIF(NOT is_target) AS expected
  FROM (
    SELECT
      TRUE AS is_target,
      SHA256({{ row_text(table) }}) AS fingerprint
    FROM {{ names.target }}
    WHERE {{ date_sql(table) }} = @compared_date
    UNION ALL
    SELECT
      FALSE,
      SHA256({{ row_text(table if expected else as_in_files(table)) }})
    FROM {{ expected or "dedup_clone_published" }}
    WHERE {{ date_sql(table if expected else as_in_files(table)) }} = @compared_date
  ) AS hashed
  GROUP BY fingerprint
) AS counted;
