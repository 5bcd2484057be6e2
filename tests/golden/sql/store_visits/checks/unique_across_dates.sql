-- Purpose: the values of the key columns, without the date, that staging has on several dates; at most 1,000 of them.
-- Params: @checked_at TIMESTAMP (none if staging is read as it is now).
-- Writes: nothing; scans the named columns and the date of staging.  Safe to retry: yes.
SELECT
  held.`store_code`,
  held.`campaign_start`,
  COUNT(*) AS found_rows,
  MIN(held.`visited_on`) AS first_date,
  MAX(held.`visited_on`) AS last_date
FROM (SELECT * FROM `local-dev.warehouse.store_visits_staging` FOR SYSTEM_TIME AS OF @checked_at) AS held
GROUP BY held.`store_code`, held.`campaign_start`
HAVING MIN(held.`visited_on`) < MAX(held.`visited_on`)
ORDER BY held.`store_code`, held.`campaign_start`
LIMIT 1000;
