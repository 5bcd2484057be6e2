-- Purpose: by date, count the rows of the new generation by GROUP BY and JOIN. The statement that writes staging works
--   differently; if its row counts equal these, the keys in staging are unique.  If rows are deleted whose keys the
--   newest snapshot lacks, only the newest delivery of a date counts, and survivors are the rows to delete.
-- Params: @retention_day DATE, @first_day DATE, @last_day DATE (bounds of the delivered dates).
-- Writes: nothing; scans incoming, and target between the bounds.  Safe to retry: yes.
{%- set day = date_sql(table) %}
{%- set id = quoted(table.snapshot_id_column) %}
{%- set values = value_expressions(table) %}
{%- macro rows_of(name, condition) %}
    SELECT
{%- for key in table.keys %}
      {{ quoted(key) }} AS key_{{ loop.index }},
{%- endfor %}
{%- for value in values %}
      {{ value }} AS value_{{ loop.index }},
{%- endfor %}
      {{ id }} AS snapshot_id
    FROM {{ name }}
    WHERE {{ condition }}
{%- endmacro %}
{%- macro keys() %}{% for key in table.keys %}key_{{ loop.index }}{{ ", " if not loop.last }}{% endfor %}{% endmacro %}
{%- set day_key = date_sql(table, "key_" ~ (table.keys.index(table.partition_column) + 1)) %}
WITH
  incoming AS (
{{- rows_of(names.incoming, day ~ " >= @retention_day") }}
  ),
  held AS (
{{- rows_of(names.target, day ~ " BETWEEN @first_day AND @last_day") if has_parent else rows_of(names.incoming, "FALSE") }}
  ),
  newest_of_day AS (
    SELECT {{ day_key }} AS found_day, MAX(snapshot_id) AS day_newest_id FROM incoming GROUP BY {{ day_key }}
  ),
  -- one row for each key: its newest snapshot id, and the greatest values among its rows with that id
  delivered AS (
    SELECT
      {{ keys() }},
      MAX(snapshot_id) AS newest_id,
      ARRAY_AGG(
        STRUCT(TRUE AS is_there{% for value in values %}, value_{{ loop.index }}{% endfor %})
        ORDER BY snapshot_id DESC{% for value in values %}, value_{{ loop.index }} DESC{% endfor %}
        LIMIT 1
      )[OFFSET(0)] AS best
    FROM incoming
{%- if table.absent_keys == "delete" %}
    JOIN newest_of_day ON {{ day_key }} = found_day AND snapshot_id = day_newest_id
{%- endif %}
    GROUP BY {{ keys() }}
  ),
  found AS (
    SELECT
{%- for key in table.keys %}
      COALESCE(delivered.key_{{ loop.index }}, held.key_{{ loop.index }}) AS key_{{ loop.index }},
{%- endfor %}
      newest_id,
      held.snapshot_id AS held_id,
      -- a delivered row replaces the held row of an equal snapshot id, because it was delivered later
      newest_id IS NOT NULL AND (held.snapshot_id IS NULL OR newest_id >= held.snapshot_id) AS is_taken,
      FALSE
{%- for value in values %}
        OR delivered.best.value_{{ loop.index }} IS DISTINCT FROM held.value_{{ loop.index }}
{%- endfor %} AS differs
    FROM delivered
    FULL JOIN held
      ON {% for key in table.keys %}delivered.key_{{ loop.index }} = held.key_{{ loop.index }}{{ "\n      AND " if not loop.last }}{% endfor %}
  ),
  classified AS (
    SELECT
      found_day,
      IF(is_taken, newest_id, held_id) AS winner_id,
      held_id IS NULL AS is_new,
      held_id IS NOT NULL AND is_taken AND differs AS is_changed,
      newest_id IS NULL OR newest_id != day_newest_id AS is_survivor,
      {{ key_text(table) }} AS key_text
    FROM found
    JOIN newest_of_day ON {{ day_key }} = found_day
  ),
  copies AS (
    SELECT {{ day_key }} AS tie_day, snapshot_id, COUNT(*) - 1 AS surplus
    FROM incoming
    GROUP BY {{ keys() }}, snapshot_id
  ),
  ties AS (
    SELECT tie_day, snapshot_id, SUM(surplus) AS surplus
    FROM copies
    GROUP BY tie_day, snapshot_id
  ),
  ties_of_day AS (
    SELECT tie_day, ARRAY_AGG(STRUCT(snapshot_id, surplus)) AS ties
    FROM ties
    GROUP BY tie_day
  ),
  counted AS (
    SELECT
      found_day,
      COUNT(*) AS row_count,
      COUNTIF(is_new) AS new_keys,
      COUNTIF(is_changed) AS changed,
      COUNTIF(is_survivor) AS survivors,
      MIN(winner_id) AS min_update_id,
      MAX(winner_id) AS max_update_id
{%- for difference in ["new", "changed", "survivor"] %},
      ARRAY_AGG(
        IF(is_{{ difference }}, key_text, NULL) IGNORE NULLS ORDER BY IF(is_{{ difference }}, key_text, NULL) LIMIT 3
      ) AS {{ difference }}_examples
{%- endfor %}
    FROM classified
    GROUP BY found_day
  )
SELECT counted.*, ties
FROM counted
JOIN ties_of_day ON found_day = tie_day
ORDER BY found_day;
