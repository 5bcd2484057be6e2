-- Purpose: by date, count the rows of the new generation by GROUP BY and JOIN. The statement that writes staging works
--   differently; if its row counts equal these, the keys in staging are unique.  If rows are deleted whose keys the
--   newest snapshot lacks, only the newest delivery of a date counts, and survivors are the rows to delete.
-- Params: @retention_day DATE, @first_day DATE, @last_day DATE (bounds of the delivered dates).
-- Writes: nothing; scans incoming, and target between the bounds.  Safe to retry: yes.
WITH
  incoming AS (
    SELECT
      `visited_on` AS key_1,
      `store_code` AS key_2,
      `campaign_start` AS key_3,
      `visitors` AS value_1,
      `revenue` AS value_2,
      `last_visit_at` AS value_3,
      (`store` IS NOT NULL) AS value_4,
      `store`.`city` AS value_5,
      IFNULL(IS_NAN(`store`.`area_m2`), FALSE) AS value_6,
      IF(IS_NAN(`store`.`area_m2`), 0, `store`.`area_m2`) AS value_7,
      (SELECT STRING_AGG(IF(element_1 IS NULL, '0', CONCAT('1', IF(element_1.`sku` IS NULL, '0', CONCAT('1', TO_HEX(CAST(element_1.`sku` AS BYTES)), ' ')), IF(element_1.`quantity` IS NULL, '0', CONCAT('1', IF(element_1.`quantity` < 0, '0', '1'), LPAD(CAST(element_1.`quantity` & 9223372036854775807 AS STRING), 19, '0'))), IF(element_1.`price` IS NULL, '0', CONCAT('1', IF(element_1.`price` < 0, '0', '1'), LPAD(SPLIT(CAST(IF(element_1.`price` < 0, NUMERIC '99999999999999999999999999999.999999999' + element_1.`price`, element_1.`price`) AS STRING), '.')[OFFSET(0)], 29, '0'), RPAD(IFNULL(SPLIT(CAST(IF(element_1.`price` < 0, NUMERIC '99999999999999999999999999999.999999999' + element_1.`price`, element_1.`price`) AS STRING), '.')[SAFE_OFFSET(1)], ''), 9, '0'))))), '' ORDER BY position_1) FROM UNNEST(`baskets`) AS element_1 WITH OFFSET AS position_1) AS value_8,
      `snapshot_no` AS snapshot_id
    FROM `local-dev.warehouse.store_visits_incoming_00000012-ab12cd`
    WHERE DATE(`visited_on`, 'UTC') >= @retention_day
  ),
  held AS (
    SELECT
      `visited_on` AS key_1,
      `store_code` AS key_2,
      `campaign_start` AS key_3,
      `visitors` AS value_1,
      `revenue` AS value_2,
      `last_visit_at` AS value_3,
      (`store` IS NOT NULL) AS value_4,
      `store`.`city` AS value_5,
      IFNULL(IS_NAN(`store`.`area_m2`), FALSE) AS value_6,
      IF(IS_NAN(`store`.`area_m2`), 0, `store`.`area_m2`) AS value_7,
      (SELECT STRING_AGG(IF(element_1 IS NULL, '0', CONCAT('1', IF(element_1.`sku` IS NULL, '0', CONCAT('1', TO_HEX(CAST(element_1.`sku` AS BYTES)), ' ')), IF(element_1.`quantity` IS NULL, '0', CONCAT('1', IF(element_1.`quantity` < 0, '0', '1'), LPAD(CAST(element_1.`quantity` & 9223372036854775807 AS STRING), 19, '0'))), IF(element_1.`price` IS NULL, '0', CONCAT('1', IF(element_1.`price` < 0, '0', '1'), LPAD(SPLIT(CAST(IF(element_1.`price` < 0, NUMERIC '99999999999999999999999999999.999999999' + element_1.`price`, element_1.`price`) AS STRING), '.')[OFFSET(0)], 29, '0'), RPAD(IFNULL(SPLIT(CAST(IF(element_1.`price` < 0, NUMERIC '99999999999999999999999999999.999999999' + element_1.`price`, element_1.`price`) AS STRING), '.')[SAFE_OFFSET(1)], ''), 9, '0'))))), '' ORDER BY position_1) FROM UNNEST(`baskets`) AS element_1 WITH OFFSET AS position_1) AS value_8,
      `snapshot_no` AS snapshot_id
    FROM `local-dev.warehouse.store_visits`
    WHERE DATE(`visited_on`, 'UTC') BETWEEN @first_day AND @last_day
  ),
  newest_of_day AS (
    SELECT DATE(key_1, 'UTC') AS found_day, MAX(snapshot_id) AS day_newest_id FROM incoming GROUP BY DATE(key_1, 'UTC')
  ),
  -- one row for each key: its newest snapshot id, and the greatest values among its rows with that id
  delivered AS (
    SELECT
      key_1, key_2, key_3,
      MAX(snapshot_id) AS newest_id,
      ARRAY_AGG(
        STRUCT(TRUE AS is_there, value_1, value_2, value_3, value_4, value_5, value_6, value_7, value_8)
        ORDER BY snapshot_id DESC, value_1 DESC, value_2 DESC, value_3 DESC, value_4 DESC, value_5 DESC, value_6 DESC, value_7 DESC, value_8 DESC
        LIMIT 1
      )[OFFSET(0)] AS best
    FROM incoming
    GROUP BY key_1, key_2, key_3
  ),
  found AS (
    SELECT
      COALESCE(delivered.key_1, held.key_1) AS key_1,
      COALESCE(delivered.key_2, held.key_2) AS key_2,
      COALESCE(delivered.key_3, held.key_3) AS key_3,
      newest_id,
      held.snapshot_id AS held_id,
      -- a delivered row replaces the held row of an equal snapshot id, because it was delivered later
      newest_id IS NOT NULL AND (held.snapshot_id IS NULL OR newest_id >= held.snapshot_id) AS is_taken,
      FALSE
        OR delivered.best.value_1 IS DISTINCT FROM held.value_1
        OR delivered.best.value_2 IS DISTINCT FROM held.value_2
        OR delivered.best.value_3 IS DISTINCT FROM held.value_3
        OR delivered.best.value_4 IS DISTINCT FROM held.value_4
        OR delivered.best.value_5 IS DISTINCT FROM held.value_5
        OR delivered.best.value_6 IS DISTINCT FROM held.value_6
        OR delivered.best.value_7 IS DISTINCT FROM held.value_7
        OR delivered.best.value_8 IS DISTINCT FROM held.value_8 AS differs
    FROM delivered
    FULL JOIN held
      ON delivered.key_1 = held.key_1
      AND delivered.key_2 = held.key_2
      AND delivered.key_3 = held.key_3
  ),
  classified AS (
    SELECT
      found_day,
      IF(is_taken, newest_id, held_id) AS winner_id,
      held_id IS NULL AS is_new,
      held_id IS NOT NULL AND is_taken AND differs AS is_changed,
      newest_id IS NULL OR newest_id != day_newest_id AS is_survivor,
      CONCAT('visited_on=', CAST(key_1 AS STRING), ', store_code=', CAST(key_2 AS STRING), ', campaign_start=', CAST(key_3 AS STRING)) AS key_text
    FROM found
    JOIN newest_of_day ON DATE(key_1, 'UTC') = found_day
  ),
  copies AS (
    SELECT DATE(key_1, 'UTC') AS tie_day, snapshot_id, COUNT(*) - 1 AS surplus
    FROM incoming
    GROUP BY key_1, key_2, key_3, snapshot_id
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
