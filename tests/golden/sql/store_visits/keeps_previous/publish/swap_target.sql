-- Purpose: replace target with a clone of staging as of @checked_at, in one statement.
-- Params: @target STRING, @parent STRING ('' before the first publish), @generation STRING, @checked_at TIMESTAMP,
--   @snapshot STRING, @manifest STRING, @description STRING, @expiration_days FLOAT64.
-- Writes: target (replaced), and with keep_previous FEED_previous, a clone of what it replaces.
--   Safe to retry: yes; it does nothing if target has @generation already, and fails if target has neither @generation
--   nor @parent.
DECLARE live STRING DEFAULT IFNULL((
  SELECT REGEXP_EXTRACT(option_value, r'"dedup_clone_generation", "([0-9]+)"')
  FROM `local-dev.warehouse`.INFORMATION_SCHEMA.TABLE_OPTIONS
  WHERE table_name = @target AND option_name = 'labels'
), '');
IF live != @generation THEN
  ASSERT live = @parent AS 'target does not hold the generation that this publish builds on: somebody else published; clear the run from its first task';
  IF live != '' THEN
    DROP TABLE IF EXISTS `local-dev.warehouse.store_visits_previous`;
    CREATE TABLE `local-dev.warehouse.store_visits_previous`
    CLONE `local-dev.warehouse.store_visits`
    OPTIONS (
      expiration_timestamp = TIMESTAMP_ADD(CURRENT_TIMESTAMP(), INTERVAL 7 DAY),
      partition_expiration_days = @expiration_days,
      description = 'What store_visits was before its last publish; its label names the generation.',
      labels = [('dedup_clone_generation', @parent)]
    );
  END IF;
  CREATE OR REPLACE TABLE `local-dev.warehouse.store_visits`
  CLONE `local-dev.warehouse.store_visits_staging` FOR SYSTEM_TIME AS OF @checked_at
  OPTIONS (
    partition_expiration_days = @expiration_days,
    description = @description,
    friendly_name = "Store visits",
    labels = [
      ('dedup_clone_generation', @generation),
      ('dedup_clone_snapshot', @snapshot),
      ('dedup_clone_manifest', @manifest),
      ('team', 'stores')
    ]
  );
END IF;
