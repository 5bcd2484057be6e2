-- Purpose: an empty table for the deliveries that an SQL engine applies. What may be NULL in it was judged before.
-- Params: none.
-- Writes: the incoming table (dropped first: its layout follows the feed).  Safe to retry: as one job an attempt.
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
