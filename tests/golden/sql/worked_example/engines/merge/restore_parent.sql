-- Purpose: make staging hold the parent again, for MERGE changes it in place.
-- Params: @retention_day DATE; target may refuse queries without a filter on its dates.
-- Writes: staging (emptied, filled); scans target whole.  Safe to retry: yes, as a whole.
TRUNCATE TABLE `local-dev.warehouse.worked_example_staging`;
INSERT INTO `local-dev.warehouse.worked_example_staging` (`date`, `product_id`, `store_id`, `attribute_id`, `attr_value`, `update_id`)
SELECT
  `date`,
  `product_id`,
  `store_id`,
  `attribute_id`,
  `attr_value`,
  `update_id`
FROM `local-dev.warehouse.worked_example`
WHERE `date` >= @retention_day;
