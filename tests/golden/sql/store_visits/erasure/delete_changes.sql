-- Purpose: delete the changes of keys that an operator erases, from before the erasure, which is @generation. Neither
--   the statement nor its parameters contain a key: keys are compared by salted hashes. `named` has the named key
--   columns only.
-- Params: @salt STRING, @digests STRING (hexadecimal SHA-256 hashes, separated by commas), @generation INT64.
-- Writes: the table of changes; scans the named key columns, and generation.  Safe to retry: yes.
DELETE FROM `local-dev.warehouse.store_visits_changes`
WHERE generation < @generation
  AND TO_HEX(SHA256(CONCAT(@salt, CONCAT(
      IF(`visited_on` IS NULL, '0', CONCAT('1', IF(UNIX_DATE(`visited_on`) < 0, '0', '1'), LPAD(CAST(UNIX_DATE(`visited_on`) & 9223372036854775807 AS STRING), 19, '0'))),
      IF(`store_code` IS NULL, '0', CONCAT('1', TO_HEX(CAST(`store_code` AS BYTES)), ' ')),
      IF(`campaign_start` IS NULL, '0', CONCAT('1', IF(UNIX_DATE(`campaign_start`) < 0, '0', '1'), LPAD(CAST(UNIX_DATE(`campaign_start`) & 9223372036854775807 AS STRING), 19, '0'))),
      IF(`visitors` IS NULL, '0', CONCAT('1', IF(`visitors` < 0, '0', '1'), LPAD(CAST(`visitors` & 9223372036854775807 AS STRING), 19, '0'))),
      IF(`revenue` IS NULL, '0', CONCAT('1', IF(`revenue` < 0, '0', '1'), LPAD(SPLIT(CAST(IF(`revenue` < 0, NUMERIC '99999999999999999999999999999.999999999' + `revenue`, `revenue`) AS STRING), '.')[OFFSET(0)], 29, '0'), RPAD(IFNULL(SPLIT(CAST(IF(`revenue` < 0, NUMERIC '99999999999999999999999999999.999999999' + `revenue`, `revenue`) AS STRING), '.')[SAFE_OFFSET(1)], ''), 9, '0'))),
      IF(`last_visit_at` IS NULL, '0', CONCAT('1', IF(UNIX_MICROS(`last_visit_at`) < 0, '0', '1'), LPAD(CAST(UNIX_MICROS(`last_visit_at`) & 9223372036854775807 AS STRING), 19, '0'))),
      IF(`store` IS NULL, '0', CONCAT('1', IF(`store`.`city` IS NULL, '0', CONCAT('1', TO_HEX(CAST(`store`.`city` AS BYTES)), ' ')), IF(`store`.`area_m2` IS NULL, '0', CONCAT('1', CASE WHEN IS_NAN(`store`.`area_m2`) THEN 'nan' WHEN `store`.`area_m2` = 0 THEN '0' ELSE FORMAT('%.16e', `store`.`area_m2`) END, ' ')))),
      CONCAT(IFNULL((SELECT STRING_AGG(IF(element_1 IS NULL, '0', CONCAT('1', IF(element_1.`sku` IS NULL, '0', CONCAT('1', TO_HEX(CAST(element_1.`sku` AS BYTES)), ' ')), IF(element_1.`quantity` IS NULL, '0', CONCAT('1', IF(element_1.`quantity` < 0, '0', '1'), LPAD(CAST(element_1.`quantity` & 9223372036854775807 AS STRING), 19, '0'))), IF(element_1.`price` IS NULL, '0', CONCAT('1', IF(element_1.`price` < 0, '0', '1'), LPAD(SPLIT(CAST(IF(element_1.`price` < 0, NUMERIC '99999999999999999999999999999.999999999' + element_1.`price`, element_1.`price`) AS STRING), '.')[OFFSET(0)], 29, '0'), RPAD(IFNULL(SPLIT(CAST(IF(element_1.`price` < 0, NUMERIC '99999999999999999999999999999.999999999' + element_1.`price`, element_1.`price`) AS STRING), '.')[SAFE_OFFSET(1)], ''), 9, '0'))))), '' ORDER BY position_1) FROM UNNEST(`baskets`) AS element_1 WITH OFFSET AS position_1), ''), ' '),
      IF(`snapshot_no` IS NULL, '0', CONCAT('1', IF(`snapshot_no` < 0, '0', '1'), LPAD(CAST(`snapshot_no` & 9223372036854775807 AS STRING), 19, '0')))
    )))) IN UNNEST(SPLIT(@digests, ','));
