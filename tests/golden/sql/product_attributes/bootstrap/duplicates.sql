-- Purpose: by date, count the surplus rows of keys that an existing table contains more than once.
--   The existing table is the feed's target.
-- Params: @retention_day DATE (earlier dates are ignored).
-- Writes: nothing; scans the key columns of the table.  Safe to retry: yes.
SELECT
  key_1 AS found_day,
  SUM(copies - 1) AS surplus_rows
FROM (
  SELECT
    key_1,
    key_2,
    key_3,
    key_4,
    COUNT(*) AS copies
  FROM (
    SELECT
      `date` AS key_1,
      `product_id` AS key_2,
      `store_id` AS key_3,
      `attribute_id` AS key_4
    FROM `local-dev.warehouse.product_attributes`
    WHERE `date` >= @retention_day
  ) AS held
  GROUP BY key_1, key_2, key_3, key_4
  HAVING COUNT(*) > 1
) AS doubled
GROUP BY found_day
ORDER BY surplus_rows DESC, found_day;
