-- Purpose: the time up to which BigQuery has applied the changes streamed into a table (NULL if it has applied none),
--   and the time of the query on BigQuery's clock.  Params: @table_name STRING.
-- Writes: nothing; reads metadata only (10 MB billed).  Safe to retry: yes.
SELECT
  CURRENT_TIMESTAMP() AS observed_at,
  upsert_stream_apply_watermark AS applied_until
FROM `local-dev.warehouse`.INFORMATION_SCHEMA.TABLES
WHERE table_name = @table_name;
