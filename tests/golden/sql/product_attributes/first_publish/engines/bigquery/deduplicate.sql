-- Purpose: for each key of target and incoming, select the row that takes precedence. The feed's `form` selects the
--   SQL, not the result.
-- Params: @retention_day DATE.
-- Writes: its job's destination, staging; scans incoming and target whole.  Safe to retry: yes, it replaces all rows.
SELECT
  `date`,
  `product_id`,
  `store_id`,
  `attribute_id`,
  `attr_value`,
  `update_id`
FROM (
  SELECT
    `date`,
    `product_id`,
    `store_id`,
    `attribute_id`,
    `attr_value`,
    `update_id`,
    `attr_value` AS dedup_clone_value_1,
    1 AS dedup_clone_source
  FROM `local-dev.warehouse.product_attributes_incoming`
  WHERE `date` >= @retention_day
)
WHERE TRUE
QUALIFY ROW_NUMBER() OVER (
  PARTITION BY `date`, `product_id`, `store_id`, `attribute_id`
  ORDER BY
    `update_id` DESC,
    dedup_clone_source DESC,
    dedup_clone_value_1 DESC
) = 1;
