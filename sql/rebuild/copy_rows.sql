-- Purpose: copy target's rows into a table with the columns that the feed file declares now. An export follows.
-- Params: @retention_day DATE.
-- Writes: the attempt's incoming table, which must not exist.  Safe to retry: yes, by the job id: an attempt runs it once.
CREATE TABLE {{ names.incoming }}
PARTITION BY {{ partition_sql(table) }}
OPTIONS (
{%- if options.kms_key %}
  kms_key_name = "{{ options.kms_key }}",
{%- endif %}
  expiration_timestamp = TIMESTAMP_ADD(CURRENT_TIMESTAMP(), INTERVAL 3 DAY),
  description = 'Rows of {{ names.target_table }} in the form of its changed feed file; of no use after the rebuild.'
) AS
{% include "rebuild/copied_rows.sql.jinja" %};
