-- Purpose: copy target's rows into a table with the columns that the feed file declares now, to export them from it.
-- Params: @retention_day DATE.
-- Writes: the incoming table, which must not exist.  Safe to retry: only after that table is dropped.
CREATE TABLE {{ names.incoming }}
PARTITION BY {{ quoted(table.partition_column) }}
OPTIONS (
{%- if options.kms_key %}
  kms_key_name = "{{ options.kms_key }}",
{%- endif %}
  expiration_timestamp = TIMESTAMP_ADD(CURRENT_TIMESTAMP(), INTERVAL 3 DAY),
  description = 'Rows of {{ names.target_table }} in the form of its changed feed file; of no use after the rebuild.'
) AS
SELECT
{%- for column, source in sources %}
  {% if source is none -%}
  CAST(NULL AS {{ type_sql(nullable(column)) }})
  {%- elif source.type == column.type -%}
  {{ quoted(source.name) }}
  {%- else -%}
  CAST({{ quoted(source.name) }} AS {{ column.type }})
  {%- endif %} AS {{ quoted(column.name) }}{{ "," if not loop.last }}
{%- endfor %}
FROM {{ names.target }}
WHERE {{ quoted(table.partition_column) }} >= @retention_day;
