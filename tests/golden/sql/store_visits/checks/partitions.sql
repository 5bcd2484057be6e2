-- Purpose: row count and last change of each partition, and the time of the query on BigQuery's clock. The time has
--   a row of its own, because an empty table has no partition.  Params: @table_name STRING.
-- Writes: nothing; reads metadata only (10 MB billed).  Safe to retry: yes.
SELECT
  CURRENT_TIMESTAMP() AS observed_at,
  CAST(NULL AS STRING) AS partition_id,
  CAST(NULL AS INT64) AS total_rows,
  CAST(NULL AS TIMESTAMP) AS last_modified_time
UNION ALL
SELECT
  CURRENT_TIMESTAMP() AS observed_at,
  partition_id,
  total_rows,
  last_modified_time
FROM `local-dev.warehouse`.INFORMATION_SCHEMA.PARTITIONS
WHERE table_name = @table_name;
