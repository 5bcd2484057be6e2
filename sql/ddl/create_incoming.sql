-- Purpose: create an empty table for the deliveries that an SQL engine applies. All columns are nullable:
--   examine_delivery.sql has checked the REQUIRED ones of the deliveries for NULL already.
-- Params: none.
-- Writes: the incoming table (dropped first: its layout follows the feed).  Safe to retry: yes, by the job id: an attempt runs it once.
DROP TABLE IF EXISTS {{ names.incoming }};
CREATE TABLE {{ names.incoming }} (
{%- for column in table.columns %}
  {{ column_sql(nullable(column)) }}{{ "," if not loop.last }}
{%- endfor %}
)
PARTITION BY {{ quoted(table.partition_column) }}
{%- if table.cluster_by %}
CLUSTER BY {% for name in table.cluster_by %}{{ quoted(name) }}{{ ", " if not loop.last }}{% endfor %}
{%- endif %}
OPTIONS (
{%- if options.kms_key %}
  kms_key_name = "{{ options.kms_key }}",
{%- endif %}
  expiration_timestamp = TIMESTAMP_ADD(CURRENT_TIMESTAMP(), INTERVAL 1 DAY),
  description = 'Deliveries that the last publish of {{ names.target_table }} applied; of no use after it.'
);
