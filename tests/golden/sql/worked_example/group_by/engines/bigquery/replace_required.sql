-- Purpose: do the work of deduplicate.sql for a table with REQUIRED columns. BigQuery refuses such a table as the
--   destination of a query, whose columns are all NULLABLE; INSERT checks each row for NULL instead.
-- Params: @retention_day DATE.
-- Writes: staging (emptied, filled); scans incoming and target whole.  Safe to retry: yes, as a whole.
TRUNCATE TABLE `local-dev.warehouse.worked_example_staging`;
INSERT INTO `local-dev.warehouse.worked_example_staging` (`date`, `product_id`, `store_id`, `attribute_id`, `attr_value`, `update_id`)
SELECT
  dedup_clone_row.`date`,
  dedup_clone_row.`product_id`,
  dedup_clone_row.`store_id`,
  dedup_clone_row.`attribute_id`,
  dedup_clone_row.`attr_value`,
  dedup_clone_row.`update_id`
FROM (
  SELECT
    ARRAY_AGG(
      STRUCT(`date`, `product_id`, `store_id`, `attribute_id`, `attr_value`, `update_id`)
      ORDER BY
        `update_id` DESC,
        dedup_clone_source DESC,
        dedup_clone_value_1 DESC
      LIMIT 1
    )[OFFSET(0)] AS dedup_clone_row
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
    FROM `local-dev.warehouse.worked_example_incoming`
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
    FROM `local-dev.warehouse.worked_example`
    WHERE `date` >= @retention_day
  )
  GROUP BY `date`, `product_id`, `store_id`, `attribute_id`
);
