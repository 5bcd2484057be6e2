-- Purpose: deduplicate.sql for a table with REQUIRED columns: no query's result has such columns, so that BigQuery
--   refuses to write it to staging as a destination; INSERT takes it and judges the rows.
-- Params: @retention_day DATE.
-- Writes: staging (emptied, filled); scans incoming and target whole.  Safe to retry: yes, as a whole.
TRUNCATE TABLE {{ names.staging }};
INSERT INTO {{ names.staging }} (
{%- for column in table.columns %}{{ quoted(column.name) }}{{ ", " if not loop.last }}{% endfor -%}
)
{% set with_target = has_parent %}
{%- include "engines/bigquery/" ~ form ~ ".sql.jinja" %};
