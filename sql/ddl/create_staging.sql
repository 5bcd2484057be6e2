-- Purpose: create staging as its feed declares it.  Params: none (identifiers come from validated settings).
-- Writes: staging, only when it does not exist.  Safe to retry: yes.
CREATE TABLE IF NOT EXISTS {{ names.staging }} (
{%- for column in table.columns %}
  {{ column_sql(column) }}{{ "," if not loop.last }}
{%- endfor %}
)
PARTITION BY {{ partition_sql(table, table.partition_by) }}
{%- if table.cluster_by %}
CLUSTER BY {% for name in table.cluster_by %}{{ quoted(name) }}{{ ", " if not loop.last }}{% endfor %}
{%- endif %}
OPTIONS (
{%- if options.kms_key %}
  kms_key_name = "{{ options.kms_key }}",
{%- endif %}
  partition_expiration_days = {{ table.retention_days }},
  description = 'Base table of {{ names.target_table }}; written by load jobs only, read through {{ names.target_table }}.'
);
