-- Purpose: do the work of deduplicate.sql for a table with REQUIRED columns. BigQuery refuses such a table as the
--   destination of a query, whose columns are all NULLABLE; INSERT checks each row for NULL instead.
-- Params: @retention_day DATE; with absent_keys delete also @replaced_dates and @kept_dates ARRAY<DATE>.
-- Writes: staging (emptied, filled); scans incoming and target whole.  Safe to retry: yes, as a whole.
TRUNCATE TABLE {{ names.staging }};
INSERT INTO {{ names.staging }} (
{%- for column in table.columns %}{{ quoted(column.name) }}{{ ", " if not loop.last }}{% endfor -%}
)
{% set with_target = has_parent %}
{%- include "engines/bigquery/" ~ form ~ ".sql.jinja" %};
