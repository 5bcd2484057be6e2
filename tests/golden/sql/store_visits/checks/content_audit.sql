-- Purpose: fingerprint one partition of target: each row's canonical text is hashed, and the hashes are combined
--   independently of row order. The result must equal the fingerprint of the same date's rows in the generation's files.
-- Params: @audited_date DATE.
-- Writes: nothing; scans all columns of one partition.  Safe to retry: yes.
SELECT
  COUNT(*) AS row_count,
  IFNULL(BIT_XOR(fingerprint), 0) AS exclusive_or,
  IFNULL(SUM(CAST(fingerprint AS NUMERIC)), NUMERIC '0') AS total
FROM (
  SELECT
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
  WHERE `visited_on` = @audited_date
) AS hashed;
