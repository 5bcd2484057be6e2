-- Purpose: the values of the key columns, without the date, that staging has on several dates; at most 1,000 of them.
-- Params: @checked_at TIMESTAMP (none if staging is read as it is now).
-- Writes: nothing; scans the named columns and the date of staging.  Safe to retry: yes.
SELECT
  held.`store_code`,
  held.`campaign_start`,
  COUNT(*) AS found_rows,
  MIN(DATE(held.`visited_on`, 'UTC')) AS first_date,
  MAX(DATE(held.`visited_on`, 'UTC')) AS last_date
FROM (SELECT * FROM `local-dev.warehouse.store_visits_staging` FOR SYSTEM_TIME AS OF @checked_at) AS held
GROUP BY held.`store_code`, held.`campaign_start`
HAVING MIN(DATE(held.`visited_on`, 'UTC')) < MAX(DATE(held.`visited_on`, 'UTC'))
ORDER BY held.`store_code`, held.`campaign_start`
LIMIT 1000;
