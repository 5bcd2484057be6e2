-- Purpose: keys that an existing table holds more than once, date by date: how many rows are too many, and a few keys.
--   The table stands as target.
-- Params: @retention_day DATE (earlier dates are not taken over).
-- Writes: nothing; scans the key columns of the table.  Safe to retry: yes.
{%- set day_key = "key_" ~ (table.keys.index(table.partition_column) + 1) %}
SELECT
  {{ day_key }} AS found_day,
  SUM(copies - 1) AS surplus_rows,
  ARRAY_AGG(IFNULL({{ key_text(table) }}, 'a key with a NULL') LIMIT 3) AS examples
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
    WHERE {{ quoted(table.partition_column) }} >= @retention_day
  ) AS held
  GROUP BY {% for key in table.keys %}key_{{ loop.index }}{{ ", " if not loop.last }}{% endfor %}
  HAVING COUNT(*) > 1
) AS doubled
GROUP BY found_day
ORDER BY surplus_rows DESC, found_day;
