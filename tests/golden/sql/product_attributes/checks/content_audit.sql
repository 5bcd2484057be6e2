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
      CONCAT(IFNULL(CAST(UNIX_DATE(`date`) AS STRING), 'n'), ';'),
      CONCAT(IFNULL(CAST(`product_id` AS STRING), 'n'), ';'),
      CONCAT(IFNULL(CAST(`store_id` AS STRING), 'n'), ';'),
      CONCAT(IFNULL(CAST(`attribute_id` AS STRING), 'n'), ';'),
      CONCAT(IFNULL(CAST(`attr_value` AS STRING), 'n'), ';'),
      CONCAT(IFNULL(CAST(`update_id` AS STRING), 'n'), ';')
    )) AS fingerprint
  FROM `local-dev.warehouse.product_attributes`
  WHERE `date` = @audited_date
) AS hashed;
