-- Purpose: make staging hold the parent again, for MERGE changes it in place.
-- Params: @retention_day DATE; target may refuse queries without a filter on its dates.
-- Writes: staging (emptied, filled); scans target whole.  Safe to retry: yes, as a whole.
TRUNCATE TABLE {{ names.staging }};
{%- if has_parent %}
INSERT INTO {{ names.staging }} (
{%- for column in table.columns %}{{ quoted(column.name) }}{{ ", " if not loop.last }}{% endfor -%}
)
SELECT
{%- for column in table.columns %}
  {{ quoted(column.name) }}{{ "," if not loop.last }}
{%- endfor %}
FROM {{ names.target }}
WHERE {{ quoted(table.partition_column) }} >= @retention_day;
{%- endif %}
