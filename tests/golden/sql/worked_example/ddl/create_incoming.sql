-- Purpose: create an empty table for the deliveries that an SQL engine applies. All columns are nullable:
--   examine_delivery.sql has checked the REQUIRED ones of the deliveries for NULL already.
-- Params: none.
-- Writes: the incoming table (dropped first: its layout follows the feed).  Safe to retry: under one job id for each attempt.
DROP TABLE IF EXISTS `local-dev.warehouse.worked_example_incoming`;
CREATE TABLE `local-dev.warehouse.worked_example_incoming` (
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
  expiration_timestamp = TIMESTAMP_ADD(CURRENT_TIMESTAMP(), INTERVAL 1 DAY),
  description = 'Deliveries that the last publish of worked_example applied; of no use after it.'
);
