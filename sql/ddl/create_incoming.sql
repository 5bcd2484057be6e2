-- Purpose: create an empty table for the deliveries that an SQL engine applies. All columns are nullable:
--   examine_delivery.sql has checked the REQUIRED ones of the deliveries for NULL already. Partitions are months,
--   because one job may write 4,000 partitions, and a delivery may have more dates that are older than the retention.
-- Params: none.
-- Writes: the attempt's incoming table.  Safe to retry: yes, it never empties the table.
CREATE TABLE IF NOT EXISTS {{ names.incoming }} (
{%- for column in table.columns %}
  {{ column_sql(nullable(column)) }}{{ "," if not loop.last }}
{%- endfor %}
)
PARTITION BY {{ partition_sql(table, "month") }}
{%- if table.cluster_by %}
CLUSTER BY {% for name in table.cluster_by %}{{ quoted(name) }}{{ ", " if not loop.last }}{% endfor %}
{%- endif %}
OPTIONS (
{%- if options.kms_key %}
  kms_key_name = "{{ options.kms_key }}",
{%- endif %}
  expiration_timestamp = TIMESTAMP_ADD(CURRENT_TIMESTAMP(), INTERVAL 1 DAY),
  description = 'Deliveries that a publish of {{ names.target_table }} applies; of no use after it.'
);
