-- Purpose: make staging hold the parent again, for MERGE changes it in place.
-- Params: @retention_day DATE; target may refuse queries without a filter on its dates.
-- Writes: staging (emptied, filled); scans target whole.  Safe to retry: yes, as a whole.
TRUNCATE TABLE `local-dev.warehouse.store_visits_staging`;
INSERT INTO `local-dev.warehouse.store_visits_staging` (`visited_on`, `store_code`, `campaign_start`, `visitors`, `revenue`, `last_visit_at`, `store`, `baskets`, `snapshot_no`)
SELECT
  `visited_on`,
  `store_code`,
  `campaign_start`,
  `visitors`,
  `revenue`,
  `last_visit_at`,
  `store`,
  `baskets`,
  `snapshot_no`
FROM `local-dev.warehouse.store_visits`
WHERE `visited_on` >= @retention_day;
