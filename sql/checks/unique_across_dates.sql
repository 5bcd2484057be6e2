-- Purpose: the values of the key columns, without the date, that staging has on several dates; at most 1,000 of them.
-- Params: @checked_at TIMESTAMP (none if staging is read as it is now).
-- Writes: nothing; scans the named columns and the date of staging.  Safe to retry: yes.
{%- set ids = table.keys | reject("equalto", table.partition_column) | list %}
{%- set day = date_sql(table, "held." ~ quoted(table.partition_column)) %}
SELECT
{%- for id in ids %}
  held.{{ quoted(id) }},
{%- endfor %}
  COUNT(*) AS found_rows,
  MIN({{ day }}) AS first_date,
  MAX({{ day }}) AS last_date
FROM {{ staging }} AS held
GROUP BY {% for id in ids %}held.{{ quoted(id) }}{{ ", " if not loop.last }}{% endfor %}
HAVING MIN({{ day }}) < MAX({{ day }})
ORDER BY {% for id in ids %}held.{{ quoted(id) }}{{ ", " if not loop.last }}{% endfor %}
LIMIT 1000;
