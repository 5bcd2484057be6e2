-- Purpose: by date, count the rows of target whose key an operator wants to erase. Neither the statement nor its
--   parameters contain a key: keys are compared by salted hashes. `table` has the named key columns only.
-- Params: @salt STRING, @digests STRING (hexadecimal SHA-256 hashes, separated by commas), @retention_day DATE.
-- Writes: nothing; scans the named key columns of target.  Safe to retry: yes.
SELECT
  `visited_on` AS found_day,
  COUNT(*) AS found_rows
FROM `local-dev.warehouse.store_visits`
WHERE `visited_on` >= @retention_day
  AND TO_HEX(SHA256(CONCAT(@salt, CONCAT(
      CONCAT(IFNULL(CAST(UNIX_DATE(`visited_on`) AS STRING), 'n'), ';'),
      CONCAT(IFNULL(CONCAT(CAST(BYTE_LENGTH(`store_code`) AS STRING), ':', `store_code`), 'n'), ';'),
      CONCAT(IFNULL(CAST(UNIX_DATE(`campaign_start`) AS STRING), 'n'), ';'),
      CONCAT(IFNULL(CAST(`visitors` AS STRING), 'n'), ';'),
      CONCAT(IFNULL(CAST(`revenue` AS STRING), 'n'), ';'),
      CONCAT(IFNULL(CAST(UNIX_MICROS(`last_visit_at`) AS STRING), 'n'), ';'),
      IF(`store` IS NULL, 'n;', CONCAT('(', CONCAT(IFNULL(CONCAT(CAST(BYTE_LENGTH(`store`.`city`) AS STRING), ':', `store`.`city`), 'n'), ';'), CONCAT(IFNULL(CASE WHEN IS_NAN(`store`.`area_m2`) THEN 'nan' WHEN `store`.`area_m2` = 0 THEN '0' ELSE FORMAT('%.16e', `store`.`area_m2`) END, 'n'), ';'), ')')),
      CONCAT(CAST(IFNULL(ARRAY_LENGTH(`baskets`), 0) AS STRING), '[', IFNULL((SELECT STRING_AGG(IF(element_1 IS NULL, 'n;', CONCAT('(', CONCAT(IFNULL(CONCAT(CAST(BYTE_LENGTH(element_1.`sku`) AS STRING), ':', element_1.`sku`), 'n'), ';'), CONCAT(IFNULL(CAST(element_1.`quantity` AS STRING), 'n'), ';'), CONCAT(IFNULL(CAST(element_1.`price` AS STRING), 'n'), ';'), ')')), '' ORDER BY position_1) FROM UNNEST(`baskets`) AS element_1 WITH OFFSET AS position_1), ''), ']'),
      CONCAT(IFNULL(CAST(`snapshot_no` AS STRING), 'n'), ';')
    )))) IN UNNEST(SPLIT(@digests, ','))
GROUP BY found_day
ORDER BY found_day;
