-- Purpose: merge the deliveries into staging, which contains the parent generation.
-- Params: @retention_day DATE, @first_day DATE, @last_day DATE (bounds of the delivered dates); with absent_keys delete
--   also @replaced_dates ARRAY<DATE>, whose rows are all delivered, and @kept_dates ARRAY<DATE>, whose rows stay.
-- Writes: staging (expired dates deleted, rows updated and inserted).  Safe to retry: yes, merging again changes nothing.
{%- set with_target = false %}
DELETE FROM {{ names.staging }} WHERE {{ date_sql(table) }} < @retention_day;
MERGE INTO {{ names.staging }} AS held
USING (
  {% filter indent(2) %}{% include "engines/bigquery/qualify.sql.jinja" %}{% endfilter %}
) AS delivered
ON {% for key in table.keys %}held.{{ quoted(key) }} = delivered.{{ quoted(key) }}
  AND {% endfor %}{{ date_sql(table, "held." ~ quoted(table.partition_column)) }} BETWEEN @first_day AND @last_day
WHEN MATCHED AND delivered.{{ quoted(table.snapshot_id_column) }} >= held.{{ quoted(table.snapshot_id_column) }} THEN
  UPDATE SET
{%- for column in table.columns if column.name not in table.keys %}
    {{ quoted(column.name) }} = delivered.{{ quoted(column.name) }}{{ "," if not loop.last }}
{%- endfor %}
WHEN NOT MATCHED THEN
  INSERT ({% for column in table.columns %}{{ quoted(column.name) }}{{ ", " if not loop.last }}{% endfor %})
  VALUES ({% for column in table.columns %}delivered.{{ quoted(column.name) }}{{ ", " if not loop.last }}{% endfor %})
{%- if table.absent_keys == "delete" %}
WHEN NOT MATCHED BY SOURCE AND {{ date_sql(table, "held." ~ quoted(table.partition_column)) }} NOT IN UNNEST(@kept_dates) THEN
  DELETE
{%- endif %};
