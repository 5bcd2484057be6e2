-- Purpose: fingerprint one partition of target as readers see it: the rows' canonical texts, hashed and added up so that
--   the order of rows does not count. The same is computed from the generation's files; both must be equal.
-- Params: @audited_date DATE.
-- Writes: nothing; scans all columns of one partition.  Safe to retry: yes.
SELECT
  COUNT(*) AS row_count,
  IFNULL(BIT_XOR(fingerprint), 0) AS exclusive_or,
  IFNULL(SUM(CAST(fingerprint AS NUMERIC)), NUMERIC '0') AS total
FROM (
  SELECT
    FARM_FINGERPRINT({{ row_text(table) }}) AS fingerprint
  FROM {{ names.target }}
  WHERE {{ quoted(table.partition_column) }} = @audited_date
) AS hashed;
