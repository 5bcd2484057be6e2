-- Purpose: rows and last change of each partition, and BigQuery's own time of the answer (a row of its own, so that
--   an empty table has it too).  Params: @table_name STRING.
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
