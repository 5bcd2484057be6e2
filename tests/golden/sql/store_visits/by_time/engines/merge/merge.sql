-- Purpose: merge the deliveries into staging, which contains the parent generation.
-- Params: @retention_day DATE, @first_day DATE, @last_day DATE (bounds of the delivered dates); with absent_keys delete
--   also @replaced_dates ARRAY<DATE>, whose rows are all delivered, and @kept_dates ARRAY<DATE>, whose rows stay.
-- Writes: staging (expired dates deleted, rows updated and inserted).  Safe to retry: yes, merging again changes nothing.
DELETE FROM `local-dev.warehouse.store_visits_staging` WHERE DATE(`visited_on`, 'UTC') < @retention_day;
MERGE INTO `local-dev.warehouse.store_visits_staging` AS held
USING (
  SELECT
    `visited_on`,
    `store_code`,
    `campaign_start`,
    `visitors`,
    `revenue`,
    `last_visit_at`,
    `store`,
    `baskets`,
    `snapshot_no`
  FROM (
    SELECT
      `visited_on`,
      `store_code`,
      `campaign_start`,
      `visitors`,
      `revenue`,
      `last_visit_at`,
      `store`,
      `baskets`,
      `snapshot_no`,
      `visitors` AS dedup_clone_value_1,
      `revenue` AS dedup_clone_value_2,
      `last_visit_at` AS dedup_clone_value_3,
      (`store` IS NOT NULL) AS dedup_clone_value_4,
      `store`.`city` AS dedup_clone_value_5,
      IFNULL(IS_NAN(`store`.`area_m2`), FALSE) AS dedup_clone_value_6,
      IF(IS_NAN(`store`.`area_m2`), 0, `store`.`area_m2`) AS dedup_clone_value_7,
      (SELECT STRING_AGG(IF(element_1 IS NULL, '0', CONCAT('1', IF(element_1.`sku` IS NULL, '0', CONCAT('1', TO_HEX(CAST(element_1.`sku` AS BYTES)), ' ')), IF(element_1.`quantity` IS NULL, '0', CONCAT('1', IF(element_1.`quantity` < 0, '0', '1'), LPAD(CAST(element_1.`quantity` & 9223372036854775807 AS STRING), 19, '0'))), IF(element_1.`price` IS NULL, '0', CONCAT('1', IF(element_1.`price` < 0, '0', '1'), LPAD(SPLIT(CAST(IF(element_1.`price` < 0, NUMERIC '99999999999999999999999999999.999999999' + element_1.`price`, element_1.`price`) AS STRING), '.')[OFFSET(0)], 29, '0'), RPAD(IFNULL(SPLIT(CAST(IF(element_1.`price` < 0, NUMERIC '99999999999999999999999999999.999999999' + element_1.`price`, element_1.`price`) AS STRING), '.')[SAFE_OFFSET(1)], ''), 9, '0'))))), '' ORDER BY position_1) FROM UNNEST(`baskets`) AS element_1 WITH OFFSET AS position_1) AS dedup_clone_value_8,
      1 AS dedup_clone_source
    FROM `local-dev.warehouse.store_visits_incoming_00000012-ab12cd`
    WHERE DATE(`visited_on`, 'UTC') >= @retention_day
  )
  WHERE TRUE
  QUALIFY ROW_NUMBER() OVER (
    PARTITION BY `visited_on`, `store_code`, `campaign_start`
    ORDER BY
      `snapshot_no` DESC,
      dedup_clone_source DESC,
      dedup_clone_value_1 DESC,
      dedup_clone_value_2 DESC,
      dedup_clone_value_3 DESC,
      dedup_clone_value_4 DESC,
      dedup_clone_value_5 DESC,
      dedup_clone_value_6 DESC,
      dedup_clone_value_7 DESC,
      dedup_clone_value_8 DESC
  ) = 1
) AS delivered
ON held.`visited_on` = delivered.`visited_on`
  AND held.`store_code` = delivered.`store_code`
  AND held.`campaign_start` = delivered.`campaign_start`
  AND DATE(held.`visited_on`, 'UTC') BETWEEN @first_day AND @last_day
WHEN MATCHED AND delivered.`snapshot_no` >= held.`snapshot_no` THEN
  UPDATE SET
    `visitors` = delivered.`visitors`,
    `revenue` = delivered.`revenue`,
    `last_visit_at` = delivered.`last_visit_at`,
    `store` = delivered.`store`,
    `baskets` = delivered.`baskets`,
    `snapshot_no` = delivered.`snapshot_no`
WHEN NOT MATCHED THEN
  INSERT (`visited_on`, `store_code`, `campaign_start`, `visitors`, `revenue`, `last_visit_at`, `store`, `baskets`, `snapshot_no`)
  VALUES (delivered.`visited_on`, delivered.`store_code`, delivered.`campaign_start`, delivered.`visitors`, delivered.`revenue`, delivered.`last_visit_at`, delivered.`store`, delivered.`baskets`, delivered.`snapshot_no`);
