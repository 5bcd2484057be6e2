-- Purpose: by date, count the rows of target whose key an operator wants to erase. Neither the statement nor its
--   parameters contain a key: keys are compared by salted hashes. `table` has the named key columns only.
-- Params: @salt STRING, @digests STRING (hexadecimal SHA-256 hashes, separated by commas), @retention_day DATE.
-- Writes: nothing; scans the named key columns of target.  Safe to retry: yes.
SELECT
  `date` AS found_day,
  COUNT(*) AS found_rows
FROM `local-dev.warehouse.product_attributes`
WHERE `date` >= @retention_day
  AND TO_HEX(SHA256(CONCAT(@salt, CONCAT(
      CONCAT(IFNULL(CAST(UNIX_DATE(`date`) AS STRING), 'n'), ';'),
      CONCAT(IFNULL(CAST(`product_id` AS STRING), 'n'), ';'),
      CONCAT(IFNULL(CAST(`store_id` AS STRING), 'n'), ';'),
      CONCAT(IFNULL(CAST(`attribute_id` AS STRING), 'n'), ';'),
      CONCAT(IFNULL(CAST(`attr_value` AS STRING), 'n'), ';'),
      CONCAT(IFNULL(CAST(`update_id` AS STRING), 'n'), ';')
    )))) IN UNNEST(SPLIT(@digests, ','))
GROUP BY found_day
ORDER BY found_day;
