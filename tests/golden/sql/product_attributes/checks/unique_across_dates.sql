-- Purpose: the values of the key columns, without the date, that staging has on several dates; at most 1,000 of them.
-- Params: @checked_at TIMESTAMP (none if staging is read as it is now).
-- Writes: nothing; scans the named columns and the date of staging.  Safe to retry: yes.
SELECT
  held.`product_id`,
  held.`store_id`,
  held.`attribute_id`,
  COUNT(*) AS found_rows,
  MIN(held.`date`) AS first_date,
  MAX(held.`date`) AS last_date
FROM (SELECT * FROM `local-dev.warehouse.product_attributes_staging` FOR SYSTEM_TIME AS OF @checked_at) AS held
GROUP BY held.`product_id`, held.`store_id`, held.`attribute_id`
HAVING MIN(held.`date`) < MAX(held.`date`)
ORDER BY held.`product_id`, held.`store_id`, held.`attribute_id`
LIMIT 1000;
