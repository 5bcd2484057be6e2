-- Purpose: create an empty table for the deliveries that an SQL engine applies. All columns are nullable:
--   examine_delivery.sql has checked the REQUIRED ones of the deliveries for NULL already. Partitions are months,
--   because one job may write 4,000 partitions, and a delivery may have more dates that are older than the retention.
-- Params: none.
-- Writes: the attempt's incoming table.  Safe to retry: yes, it never empties the table.
CREATE TABLE IF NOT EXISTS `local-dev.warehouse.store_visits_incoming_00000012-ab12cd` (
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
PARTITION BY DATE_TRUNC(`visited_on`, MONTH)
CLUSTER BY `store_code`
OPTIONS (
  expiration_timestamp = TIMESTAMP_ADD(CURRENT_TIMESTAMP(), INTERVAL 1 DAY),
  description = 'Deliveries that a publish of store_visits applies; of no use after it.'
);
