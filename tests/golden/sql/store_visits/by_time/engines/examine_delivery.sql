-- Purpose: count the invalid rows in each file of one landed delivery, before the delivery is used.
-- Params: @snapshot_id INT64, @retention_day DATE, @latest_day DATE, @date_folders BOOL (a file's folder names its
--   date).  `dedup_clone_landed` is the job's external table.
-- Writes: nothing; scans keys, snapshot id and REQUIRED columns of the landed files.  Safe to retry: yes.
WITH
  landed AS (
    SELECT
      DATE(`visited_on`, 'UTC') AS row_day,
      `snapshot_no` AS row_id,
      [
        `visited_on` IS NULL,
        `store_code` IS NULL,
        `campaign_start` IS NULL,
        `snapshot_no` IS NULL
      ] AS is_null,
      _FILE_NAME AS file_name,
      IF(
        @date_folders,
        SAFE.PARSE_DATE('%Y-%m-%d', REGEXP_EXTRACT(_FILE_NAME, r'/date=([0-9]{4}-[0-9]{2}-[0-9]{2})/[^/]+$')),
        NULL
      ) AS folder_day
    FROM dedup_clone_landed
  )
SELECT
  file_name,
  COUNT(*) AS row_count,
  COUNTIF(row_day < @retention_day) AS dropped_rows,
  MIN(IF(row_day >= @retention_day, row_day, NULL)) AS first_day,
  MAX(row_day) AS last_day,
  COUNTIF(row_day > @latest_day) AS late_rows,
  COUNTIF(row_day != folder_day) AS other_day_rows,
  MIN(IF(row_day != folder_day, row_day, NULL)) AS other_day,
  COUNTIF(row_id != @snapshot_id) AS other_id_rows,
  [
    STRUCT('visited_on' AS name, COUNTIF(is_null[OFFSET(0)]) AS row_count),
    STRUCT('store_code' AS name, COUNTIF(is_null[OFFSET(1)]) AS row_count),
    STRUCT('campaign_start' AS name, COUNTIF(is_null[OFFSET(2)]) AS row_count),
    STRUCT('snapshot_no' AS name, COUNTIF(is_null[OFFSET(3)]) AS row_count)
  ] AS null_counts
FROM landed
GROUP BY file_name
ORDER BY file_name;
