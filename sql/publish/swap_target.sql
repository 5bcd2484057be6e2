-- Purpose: replace target with a clone of staging as of @checked_at, in one statement.
-- Params: @target STRING, @parent STRING ('' before the first publish), @generation STRING, @checked_at TIMESTAMP,
--   @snapshot STRING, @manifest STRING, @description STRING, @expiration_days FLOAT64.
-- Writes: target (replaced), and with keep_previous FEED_previous, a clone of what it replaces.
--   Safe to retry: yes; it does nothing if target has @generation already, and fails if target has neither @generation
--   nor @parent.
DECLARE live STRING DEFAULT IFNULL((
  SELECT REGEXP_EXTRACT(option_value, r'"dedup_clone_generation", "([0-9]+)"')
  FROM {{ names.information_schema("TABLE_OPTIONS") }}
  WHERE table_name = @target AND option_name = 'labels'
), '');
IF live != @generation THEN
  ASSERT live = @parent AS 'target does not hold the generation that this publish builds on: somebody else published; clear the run from its first task';
{%- if previous_days %}
  IF live != '' THEN
    DROP TABLE IF EXISTS {{ names.previous }};
    CREATE TABLE {{ names.previous }}
    CLONE {{ names.target }}
    OPTIONS (
      expiration_timestamp = TIMESTAMP_ADD(CURRENT_TIMESTAMP(), INTERVAL {{ previous_days }} DAY),
      partition_expiration_days = @expiration_days,
      description = 'What {{ names.target_table }} was before its last publish; its label names the generation.',
{%- if options.kms_key %}
      kms_key_name = "{{ options.kms_key }}",
{%- endif %}
      labels = [('dedup_clone_generation', @parent)]
    );
  END IF;
{%- endif %}
  CREATE OR REPLACE TABLE {{ names.target }}
  CLONE {{ names.staging }} FOR SYSTEM_TIME AS OF @checked_at
  OPTIONS (
    partition_expiration_days = @expiration_days,
    description = @description,
{%- if options.friendly_name %}
    friendly_name = "{{ options.friendly_name }}",
{%- endif %}
{%- if options.kms_key %}
    kms_key_name = "{{ options.kms_key }}",
{%- endif %}
{%- if options.require_partition_filter %}
    require_partition_filter = TRUE,
{%- endif %}
    labels = [
      ('dedup_clone_generation', @generation),
      ('dedup_clone_snapshot', @snapshot),
      ('dedup_clone_manifest', @manifest)
{%- for key, value in options.labels.items() %},
      ('{{ key }}', '{{ value }}')
{%- endfor %}
    ]
  );
END IF;
