-- Purpose: create staging as its feed declares it.  Params: none (identifiers come from validated settings).
-- Writes: staging, only when it does not exist.  Safe to retry: yes.
CREATE TABLE IF NOT EXISTS `local-dev.warehouse.product_attributes_staging` (
  `date` DATE,
  `product_id` INT64,
  `store_id` INT64,
  `attribute_id` INT64,
  `attr_value` INT64,
  `update_id` INT64
)
PARTITION BY `date`
CLUSTER BY `product_id`, `store_id`, `attribute_id`
OPTIONS (
  partition_expiration_days = 730,
  description = 'Base table of product_attributes; written by load jobs only, read through product_attributes.'
);
