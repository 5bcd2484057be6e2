-- Purpose: create an empty table for the deliveries that an SQL engine applies. All columns are nullable:
--   examine_delivery.sql has checked the REQUIRED ones of the deliveries for NULL already.
-- Params: none.
-- Writes: the incoming table (dropped first: its layout follows the feed).  Safe to retry: yes, by the job id: an attempt runs it once.
DROP TABLE IF EXISTS `local-dev.warehouse.store_visits_incoming`;
CREATE TABLE `local-dev.warehouse.store_visits_incoming` (
  `visited_on` DATE,
  `store_code` STRING,
  `campaign_start` DATE,
  `visitors` INT64,
  `revenue` NUMERIC,
  `last_visit_at` TIMESTAMP,
  `store` STRUCT<`city` STRING, `area_m2` FLOAT64>,
  `baskets` ARRAY<STRUCT<`sku` STRING, `quantity` INT64, `price` NUMERIC>>,
  `snapshot_no` INT64
)
PARTITION BY `visited_on`
CLUSTER BY `store_code`
OPTIONS (
  expiration_timestamp = TIMESTAMP_ADD(CURRENT_TIMESTAMP(), INTERVAL 1 DAY),
  description = 'Deliveries that the last publish of store_visits applied; of no use after it.'
);
