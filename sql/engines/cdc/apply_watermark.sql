-- Purpose: until when BigQuery has applied the changes that were streamed into a table; NULL before the first time.
-- Params: @table_name STRING.
-- Writes: nothing; reads metadata only (10 MB billed).  Safe to retry: yes.
SELECT upsert_stream_apply_watermark
FROM {{ names.information_schema("TABLES") }}
WHERE table_name = @table_name;
