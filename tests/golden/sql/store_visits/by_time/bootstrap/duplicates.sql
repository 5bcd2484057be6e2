-- Purpose: by date, count the surplus rows of keys that an existing table contains more than once.
--   The existing table is the feed's target.
-- Params: @retention_day DATE (earlier dates are ignored).
-- Writes: nothing; scans the key columns of the table.  Safe to retry: yes.
SELECT
  DATE(key_1, 'UTC') AS found_day,
  SUM(copies - 1) AS found_rows
FROM (
  SELECT
    key_1,
    key_2,
    key_3,
    COUNT(*) AS copies
  FROM (
    SELECT
      `visited_on` AS key_1,
      `store_code` AS key_2,
      `campaign_start` AS key_3
    FROM `local-dev.warehouse.store_visits`
    WHERE DATE(`visited_on`, 'UTC') >= @retention_day
  ) AS held
  GROUP BY key_1, key_2, key_3
  HAVING COUNT(*) > 1
) AS doubled
GROUP BY found_day
ORDER BY found_rows DESC, found_day;
