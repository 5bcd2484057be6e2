-- Purpose: do the work of deduplicate.sql for a table with REQUIRED columns. BigQuery refuses such a table as the
--   destination of a query, whose columns are all NULLABLE; INSERT checks each row for NULL instead.
-- Params: @retention_day DATE.
-- Writes: staging (emptied, filled); scans incoming and target whole.  Safe to retry: yes, as a whole.
TRUNCATE TABLE `local-dev.warehouse.product_attributes_staging`;
INSERT INTO `local-dev.warehouse.product_attributes_staging` (`date`, `product_id`, `store_id`, `attribute_id`, `attr_value`, `update_id`)
SELECT
  `date`,
  `product_id`,
  `store_id`,
  `attribute_id`,
  `attr_value`,
  `update_id`
FROM (
  SELECT
    *,
    ROW_NUMBER() OVER (
      PARTITION BY `date`, `product_id`, `store_id`, `attribute_id`
      ORDER BY
        `update_id` DESC,
        dedup_clone_source DESC,
        dedup_clone_value_1 DESC
    ) AS dedup_clone_number
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
    UNION ALL
    SELECT
      `date`,
      `product_id`,
      `store_id`,
      `attribute_id`,
      `attr_value`,
      `update_id`,
      `attr_value` AS dedup_clone_value_1,
      0 AS dedup_clone_source
    FROM `local-dev.warehouse.product_attributes`
    WHERE `date` >= @retention_day
  )
)
WHERE dedup_clone_number = 1;
