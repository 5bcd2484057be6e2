-- Purpose: for each key of target and incoming, select the row that takes precedence. The feed's `form` selects the
--   SQL, not the result.
-- Params: @retention_day DATE; with absent_keys delete also @replaced_dates and @kept_dates ARRAY<DATE>.
-- Writes: its job's destination, staging; scans incoming and target whole.  Safe to retry: yes, it replaces all rows.
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
  UNION ALL
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
    0 AS dedup_clone_source
  FROM `local-dev.warehouse.store_visits`
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
) = 1;
