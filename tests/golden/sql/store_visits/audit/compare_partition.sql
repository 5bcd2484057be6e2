-- Purpose: compare one partition of target with the rows that it should have: those of the published files, which the
--   job defines as the external table dedup_clone_published, or those of another table. Rows in any order are equal;
--   each row counts as often as it occurs.
-- Params: @compared_date DATE.
-- Writes: nothing; scans all columns of one partition of each side.  Safe to retry: yes.
SELECT
  IFNULL(SUM(in_target), 0) AS row_count,
  IFNULL(SUM(expected), 0) AS expected_rows,
  IFNULL(SUM(GREATEST(expected - in_target, 0)), 0) AS missing,
  IFNULL(SUM(GREATEST(in_target - expected, 0)), 0) AS surplus
FROM (
  SELECT
    COUNTIF(is_target) AS in_target,
    COUNTIF(NOT is_target) AS expected
  FROM (
    SELECT
      TRUE AS is_target,
      FARM_FINGERPRINT(CONCAT(
      CONCAT(IFNULL(CAST(UNIX_DATE(`visited_on`) AS STRING), 'n'), ';'),
      CONCAT(IFNULL(CONCAT(CAST(BYTE_LENGTH(`store_code`) AS STRING), ':', `store_code`), 'n'), ';'),
      CONCAT(IFNULL(CAST(UNIX_DATE(`campaign_start`) AS STRING), 'n'), ';'),
      CONCAT(IFNULL(CAST(`visitors` AS STRING), 'n'), ';'),
      CONCAT(IFNULL(CAST(`revenue` AS STRING), 'n'), ';'),
      CONCAT(IFNULL(CAST(UNIX_MICROS(`last_visit_at`) AS STRING), 'n'), ';'),
      IF(`store` IS NULL, 'n;', CONCAT('(', CONCAT(IFNULL(CONCAT(CAST(BYTE_LENGTH(`store`.`city`) AS STRING), ':', `store`.`city`), 'n'), ';'), CONCAT(IFNULL(CASE WHEN IS_NAN(`store`.`area_m2`) THEN 'nan' WHEN `store`.`area_m2` = 0 THEN '0' ELSE FORMAT('%.16e', `store`.`area_m2`) END, 'n'), ';'), ')')),
      CONCAT(CAST(IFNULL(ARRAY_LENGTH(`baskets`), 0) AS STRING), '[', IFNULL((SELECT STRING_AGG(IF(element_1 IS NULL, 'n;', CONCAT('(', CONCAT(IFNULL(CONCAT(CAST(BYTE_LENGTH(element_1.`sku`) AS STRING), ':', element_1.`sku`), 'n'), ';'), CONCAT(IFNULL(CAST(element_1.`quantity` AS STRING), 'n'), ';'), CONCAT(IFNULL(CAST(element_1.`price` AS STRING), 'n'), ';'), ')')), '' ORDER BY position_1) FROM UNNEST(`baskets`) AS element_1 WITH OFFSET AS position_1), ''), ']'),
      CONCAT(IFNULL(CAST(`snapshot_no` AS STRING), 'n'), ';')
    )) AS fingerprint
    FROM `local-dev.warehouse.store_visits`
    WHERE `visited_on` = @compared_date
    UNION ALL
    SELECT
      FALSE,
      FARM_FINGERPRINT(CONCAT(
      CONCAT(IFNULL(CAST(UNIX_DATE(`visited_on`) AS STRING), 'n'), ';'),
      CONCAT(IFNULL(CONCAT(CAST(BYTE_LENGTH(`store_code`) AS STRING), ':', `store_code`), 'n'), ';'),
      CONCAT(IFNULL(CAST(UNIX_DATE(`campaign_start`) AS STRING), 'n'), ';'),
      CONCAT(IFNULL(CAST(`visitors` AS STRING), 'n'), ';'),
      CONCAT(IFNULL(CAST(`revenue` AS STRING), 'n'), ';'),
      CONCAT(IFNULL(CAST(UNIX_MICROS(`last_visit_at`) AS STRING), 'n'), ';'),
      IF(`store` IS NULL, 'n;', CONCAT('(', CONCAT(IFNULL(CONCAT(CAST(BYTE_LENGTH(`store`.`city`) AS STRING), ':', `store`.`city`), 'n'), ';'), CONCAT(IFNULL(CASE WHEN IS_NAN(`store`.`area_m2`) THEN 'nan' WHEN `store`.`area_m2` = 0 THEN '0' ELSE FORMAT('%.16e', `store`.`area_m2`) END, 'n'), ';'), ')')),
      CONCAT(CAST(IFNULL(ARRAY_LENGTH(`baskets`), 0) AS STRING), '[', IFNULL((SELECT STRING_AGG(IF(element_1 IS NULL, 'n;', CONCAT('(', CONCAT(IFNULL(CONCAT(CAST(BYTE_LENGTH(element_1.`sku`) AS STRING), ':', element_1.`sku`), 'n'), ';'), CONCAT(IFNULL(CAST(element_1.`quantity` AS STRING), 'n'), ';'), CONCAT(IFNULL(CAST(element_1.`price` AS STRING), 'n'), ';'), ')')), '' ORDER BY position_1) FROM UNNEST(`baskets`) AS element_1 WITH OFFSET AS position_1), ''), ']'),
      CONCAT(IFNULL(CAST(`snapshot_no` AS STRING), 'n'), ';')
    ))
    FROM dedup_clone_published
    WHERE `visited_on` = @compared_date
  ) AS hashed
  GROUP BY fingerprint
) AS counted;
