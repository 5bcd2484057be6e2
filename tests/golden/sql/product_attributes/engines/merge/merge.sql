-- Purpose: merge the deliveries into staging, which contains the parent generation.
-- Params: @retention_day DATE, @first_day DATE, @last_day DATE (bounds of the delivered dates).
-- Writes: staging (expired dates deleted, rows updated and inserted).  Safe to retry: yes, merging again changes nothing.
DELETE FROM `local-dev.warehouse.product_attributes_staging` WHERE `date` < @retention_day;
MERGE INTO `local-dev.warehouse.product_attributes_staging` AS held
USING (
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
  ) = 1
) AS delivered
ON held.`date` = delivered.`date`
  AND held.`product_id` = delivered.`product_id`
  AND held.`store_id` = delivered.`store_id`
  AND held.`attribute_id` = delivered.`attribute_id`
  AND held.`date` BETWEEN @first_day AND @last_day
WHEN MATCHED AND delivered.`update_id` >= held.`update_id` THEN
  UPDATE SET
    `attr_value` = delivered.`attr_value`,
    `update_id` = delivered.`update_id`
WHEN NOT MATCHED THEN
  INSERT (`date`, `product_id`, `store_id`, `attribute_id`, `attr_value`, `update_id`)
  VALUES (delivered.`date`, delivered.`product_id`, delivered.`store_id`, delivered.`attribute_id`, delivered.`attr_value`, delivered.`update_id`);
