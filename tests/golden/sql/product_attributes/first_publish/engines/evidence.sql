-- Purpose: by date, count the rows of the new generation by GROUP BY and JOIN. The statement that writes staging works
--   differently; if its row counts equal these, the keys in staging are unique.
-- Params: @retention_day DATE, @first_day DATE, @last_day DATE (bounds of the delivered dates).
-- Writes: nothing; scans incoming, and target between the bounds.  Safe to retry: yes.
WITH
  incoming AS (
    SELECT
      `date` AS key_1,
      `product_id` AS key_2,
      `store_id` AS key_3,
      `attribute_id` AS key_4,
      `attr_value` AS value_1,
      `update_id` AS snapshot_id
    FROM `local-dev.warehouse.product_attributes_incoming`
    WHERE `date` >= @retention_day
  ),
  held AS (
    SELECT
      `date` AS key_1,
      `product_id` AS key_2,
      `store_id` AS key_3,
      `attribute_id` AS key_4,
      `attr_value` AS value_1,
      `update_id` AS snapshot_id
    FROM `local-dev.warehouse.product_attributes_incoming`
    WHERE FALSE
  ),
  -- one row for each key: its newest snapshot id, and the greatest values among its rows with that id
  delivered AS (
    SELECT
      key_1, key_2, key_3, key_4,
      MAX(snapshot_id) AS newest_id,
      ARRAY_AGG(
        STRUCT(TRUE AS is_there, value_1)
        ORDER BY snapshot_id DESC, value_1 DESC
        LIMIT 1
      )[OFFSET(0)] AS best
    FROM incoming
    GROUP BY key_1, key_2, key_3, key_4
  ),
  found AS (
    SELECT
      COALESCE(delivered.key_1, held.key_1) AS key_1,
      COALESCE(delivered.key_2, held.key_2) AS key_2,
      COALESCE(delivered.key_3, held.key_3) AS key_3,
      COALESCE(delivered.key_4, held.key_4) AS key_4,
      newest_id,
      held.snapshot_id AS held_id,
      -- a delivered row replaces the held row of an equal snapshot id, because it was delivered later
      newest_id IS NOT NULL AND (held.snapshot_id IS NULL OR newest_id >= held.snapshot_id) AS is_taken,
      FALSE
        OR delivered.best.value_1 IS DISTINCT FROM held.value_1 AS differs
    FROM delivered
    FULL JOIN held
      ON delivered.key_1 = held.key_1
      AND delivered.key_2 = held.key_2
      AND delivered.key_3 = held.key_3
      AND delivered.key_4 = held.key_4
  ),
  newest_of_day AS (
    SELECT key_1 AS found_day, MAX(snapshot_id) AS day_newest_id FROM incoming GROUP BY key_1
  ),
  classified AS (
    SELECT
      found_day,
      IF(is_taken, newest_id, held_id) AS winner_id,
      held_id IS NULL AS is_new,
      held_id IS NOT NULL AND is_taken AND differs AS is_changed,
      newest_id IS NULL OR newest_id != day_newest_id AS is_survivor,
      CONCAT('product_id=', CAST(key_2 AS STRING), ', store_id=', CAST(key_3 AS STRING), ', attribute_id=', CAST(key_4 AS STRING)) AS key_text
    FROM found
    JOIN newest_of_day ON key_1 = found_day
  ),
  copies AS (
    SELECT key_1 AS tie_day, snapshot_id, COUNT(*) - 1 AS surplus
    FROM incoming
    GROUP BY key_1, key_2, key_3, key_4, snapshot_id
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
      MAX(winner_id) AS max_update_id,
      ARRAY_AGG(
        IF(is_new, key_text, NULL) IGNORE NULLS ORDER BY IF(is_new, key_text, NULL) LIMIT 3
      ) AS new_examples,
      ARRAY_AGG(
        IF(is_changed, key_text, NULL) IGNORE NULLS ORDER BY IF(is_changed, key_text, NULL) LIMIT 3
      ) AS changed_examples,
      ARRAY_AGG(
        IF(is_survivor, key_text, NULL) IGNORE NULLS ORDER BY IF(is_survivor, key_text, NULL) LIMIT 3
      ) AS survivor_examples
    FROM classified
    GROUP BY found_day
  )
SELECT counted.*, ties
FROM counted
JOIN ties_of_day ON found_day = tie_day
ORDER BY found_day;
