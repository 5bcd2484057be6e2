-- Purpose: create staging as its feed declares it.  Params: none (identifiers come from validated settings).
-- Writes: staging, only when it does not exist.  Safe to retry: yes.
CREATE TABLE IF NOT EXISTS `local-dev.warehouse.store_visits_staging` (
  `visited_on` TIMESTAMP,
  `store_code` STRING NOT NULL,
  `campaign_start` DATE,
  `visitors` INT64,
  `revenue` NUMERIC,
  `last_visit_at` TIMESTAMP,
  `store` STRUCT<`city` STRING, `area_m2` FLOAT64>,
  `baskets` ARRAY<STRUCT<`sku` STRING, `quantity` INT64, `price` NUMERIC>>,
  `snapshot_no` INT64
)
PARTITION BY TIMESTAMP_TRUNC(`visited_on`, DAY)
CLUSTER BY `store_code`
OPTIONS (
  partition_expiration_days = 400,
  description = 'Base table of store_visits; written by load jobs only, read through store_visits.'
);
