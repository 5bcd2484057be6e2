-- Purpose: until when BigQuery has applied the changes that were streamed into a table (NULL before the first time), and
--   BigQuery's own time of the answer.  Params: @table_name STRING.
-- Writes: nothing; reads metadata only (10 MB billed).  Safe to retry: yes.
SELECT
  CURRENT_TIMESTAMP() AS observed_at,
  upsert_stream_apply_watermark AS applied_until
FROM `local-dev.warehouse`.INFORMATION_SCHEMA.TABLES
WHERE table_name = @table_name;
