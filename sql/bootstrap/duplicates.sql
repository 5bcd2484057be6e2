-- Purpose: by date, count the surplus rows of keys that an existing table contains more than once.
--   The existing table is the feed's target.
-- Params: @retention_day DATE (earlier dates are ignored).
-- Writes: nothing; scans the key columns of the table.  Safe to retry: yes.
{%- set day_key = date_sql(table, "key_" ~ (table.keys.index(table.partition_column) + 1)) %}
SELECT
  {{ day_key }} AS found_day,
  SUM(copies - 1) AS found_rows
FROM (
  SELECT
{%- for key in table.keys %}
    key_{{ loop.index }},
{%- endfor %}
    COUNT(*) AS copies
  FROM (
    SELECT
{%- for key in table.keys %}
      {{ quoted(key) }} AS key_{{ loop.index }}{{ "," if not loop.last }}
{%- endfor %}
    FROM {{ names.target }}
    WHERE {{ date_sql(table) }} >= @retention_day
  ) AS held
  GROUP BY {% for key in table.keys %}key_{{ loop.index }}{{ ", " if not loop.last }}{% endfor %}
  HAVING COUNT(*) > 1
) AS doubled
GROUP BY found_day
ORDER BY found_rows DESC, found_day;
