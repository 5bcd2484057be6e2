-- Purpose: of the rows of each key, in target and in incoming, the one that takes precedence, by the feed's `form`.
-- Params: @retention_day DATE.
-- Writes: its job's destination, staging; scans incoming and target whole.  Safe to retry: yes, it replaces all rows.
{% set with_target = has_parent %}
{%- include "engines/bigquery/" ~ form ~ ".sql.jinja" %};
