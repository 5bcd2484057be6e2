-- Purpose: create an empty table for the deliveries that an SQL engine applies. All columns are nullable:
--   examine_delivery.sql has checked the REQUIRED ones of the deliveries for NULL already.
-- Params: none.
-- Writes: the incoming table (dropped first: its layout follows the feed).  Safe to retry: yes, by the job id: an attempt runs it once.
DROP TABLE IF EXISTS `local-dev.warehouse.product_attributes_incoming`;
CREATE TABLE `local-dev.warehouse.product_attributes_incoming` (
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
  description = 'Deliveries that the last publish of product_attributes applied; of no use after it.'
);
