-- Purpose: for each key of target and incoming, select the row that takes precedence. The feed's `form` selects the
--   SQL, not the result.
-- Params: @retention_day DATE; with absent_keys delete also @replaced_dates and @kept_dates ARRAY<DATE>.
-- Writes: its job's destination, staging; scans incoming and target whole.  Safe to retry: yes, it replaces all rows.
{% set with_target = has_parent %}
{%- include "engines/bigquery/" ~ form ~ ".sql.jinja" %};
