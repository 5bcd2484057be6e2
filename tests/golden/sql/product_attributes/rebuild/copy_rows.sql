-- Purpose: copy target's rows into a table with the columns that the feed file declares now. An export follows.
-- Params: @retention_day DATE.
-- Writes: the incoming table, which must not exist.  Safe to retry: only after that table is dropped.
CREATE TABLE `local-dev.warehouse.product_attributes_incoming`
PARTITION BY `date`
OPTIONS (
  expiration_timestamp = TIMESTAMP_ADD(CURRENT_TIMESTAMP(), INTERVAL 3 DAY),
  description = 'Rows of product_attributes in the form of its changed feed file; of no use after the rebuild.'
) AS
SELECT
  `date` AS `date`,
  `product_id` AS `product_id`,
  `store_id` AS `store_id`,
  `attribute_id` AS `attribute_id`,
  CAST(`former_attr_value` AS INT64) AS `attr_value`,
  `update_id` AS `update_id`,
  CAST(NULL AS STRING) AS `note`
FROM `local-dev.warehouse.product_attributes`
WHERE `date` >= @retention_day;
