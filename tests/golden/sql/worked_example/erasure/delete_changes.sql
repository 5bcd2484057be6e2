-- Purpose: delete the changes of keys that an operator erases. Neither the statement nor its parameters contain a
--   key: keys are compared by salted hashes. `table` has the named key columns only.
-- Params: @salt STRING, @digests STRING (hexadecimal SHA-256 hashes, separated by commas).
-- Writes: the table of changes; scans the named key columns.  Safe to retry: yes.
DELETE FROM `local-dev.warehouse.worked_example_changes`
WHERE TO_HEX(SHA256(CONCAT(@salt, CONCAT(
      CONCAT(IFNULL(CAST(UNIX_DATE(`date`) AS STRING), 'n'), ';'),
      CONCAT(IFNULL(CAST(`product_id` AS STRING), 'n'), ';'),
      CONCAT(IFNULL(CAST(`store_id` AS STRING), 'n'), ';'),
      CONCAT(IFNULL(CAST(`attribute_id` AS STRING), 'n'), ';'),
      CONCAT(IFNULL(CAST(`attr_value` AS STRING), 'n'), ';'),
      CONCAT(IFNULL(CAST(`update_id` AS STRING), 'n'), ';')
    )))) IN UNNEST(SPLIT(@digests, ','));
