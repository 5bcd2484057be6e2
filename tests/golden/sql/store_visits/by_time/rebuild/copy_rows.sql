-- Purpose: copy target's rows into a table with the columns that the feed file declares now. An export follows.
-- Params: @retention_day DATE.
-- Writes: the attempt's incoming table, which must not exist.  Safe to retry: yes, by the job id: an attempt runs it once.
CREATE TABLE `local-dev.warehouse.store_visits_incoming_00000012-ab12cd`
PARTITION BY TIMESTAMP_TRUNC(`visited_on`, DAY)
OPTIONS (
  expiration_timestamp = TIMESTAMP_ADD(CURRENT_TIMESTAMP(), INTERVAL 3 DAY),
  description = 'Rows of store_visits in the form of its changed feed file; of no use after the rebuild.'
) AS
SELECT
  `visited_on` AS `visited_on`,
  `store_code` AS `store_code`,
  `campaign_start` AS `campaign_start`,
  CAST(`former_visitors` AS INT64) AS `visitors`,
  `revenue` AS `revenue`,
  `last_visit_at` AS `last_visit_at`,
  `store` AS `store`,
  `baskets` AS `baskets`,
  `snapshot_no` AS `snapshot_no`,
  CAST(NULL AS STRING) AS `note`
FROM `local-dev.warehouse.store_visits`
WHERE DATE(`visited_on`, 'UTC') >= @retention_day;
