-- Purpose: by date, count the rows of target whose key an operator wants to erase. Neither the statement nor its
--   parameters contain a key: keys are compared by salted hashes. `named` has the named key columns only.
-- Params: @salt STRING, @digests STRING (hexadecimal SHA-256 hashes, separated by commas), @retention_day DATE.
-- Writes: nothing; scans the named key columns of target.  Safe to retry: yes.
SELECT
  {{ date_sql(table) }} AS found_day,
  COUNT(*) AS found_rows
FROM {{ names.target }}
WHERE {{ date_sql(table) }} >= @retention_day
  AND TO_HEX(SHA256(CONCAT(@salt, {{ row_text(named) }}))) IN UNNEST(SPLIT(@digests, ','))
GROUP BY found_day
ORDER BY found_day;
