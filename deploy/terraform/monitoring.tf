# The watchdog writes its gauges to the log of its task, which Managed Airflow sends to Cloud Logging. Metrics of these log
# lines need no StatsD server, and their absence is noticed while all of Airflow is down (docs/alerts-and-metrics.md).
locals {
  watchdog_log = join(" AND ", [
    "resource.type=\"cloud_composer_environment\"",
    "resource.labels.environment_name=\"${var.name}\"",
    "textPayload:\"dedup_clone_gauges\"",
  ])

  # The gauges that the alert policies and the dashboard use, each with its unit.
  feed_gauges = {
    waiting_seconds  = "s"
    sla_seconds      = "s"
    sla_share_used   = "1"
    age_seconds      = "s"
    lag_seconds      = "s"
    incidents_open   = "1"
    arrivals_overdue = "1"
  }

  feeds_checked = "logging.googleapis.com/user/${google_logging_metric.feeds_checked.name}"
}

resource "google_logging_metric" "feed" {
  for_each = local.feed_gauges

  name            = "${var.name}/${each.key}"
  description     = "${each.key} of each feed, see docs/alerts-and-metrics.md"
  filter          = "${local.watchdog_log} AND textPayload:\" ${each.key}=\""
  value_extractor = "REGEXP_EXTRACT(textPayload, \" ${each.key}=([0-9.]+)\")"

  metric_descriptor {
    metric_kind = "DELTA"
    value_type  = "DISTRIBUTION"
    unit        = each.value

    labels {
      key        = "feed"
      value_type = "STRING"
    }
  }

  label_extractors = {
    feed = "REGEXP_EXTRACT(textPayload, \"dedup_clone_gauges feed=([a-z0-9_]+)\")"
  }

  depends_on = [google_project_service.needed]
}

resource "google_logging_metric" "feeds_checked" {
  name            = "${var.name}/feeds_checked"
  description     = "Feeds that one check of the watchdog could check; its absence says that nobody checks"
  filter          = "${local.watchdog_log} AND textPayload:\" feeds_checked=\""
  value_extractor = "REGEXP_EXTRACT(textPayload, \" feeds_checked=([0-9.]+)\")"

  metric_descriptor {
    metric_kind = "DELTA"
    value_type  = "DISTRIBUTION"
    unit        = "1"
  }

  depends_on = [google_project_service.needed]
}

resource "google_monitoring_alert_policy" "freshness_burn" {
  display_name          = "${var.name}: a freshness SLA is nearly used up or missed"
  combiner              = "OR"
  notification_channels = var.notification_channels
  user_labels           = local.labels

  conditions {
    display_name = "More than 80 % of the SLA has passed since the oldest waiting delivery arrived"

    condition_threshold {
      filter          = "resource.type = \"cloud_composer_environment\" AND metric.type = \"logging.googleapis.com/user/${google_logging_metric.feed["sla_share_used"].name}\""
      comparison      = "COMPARISON_GT"
      threshold_value = 0.8
      duration        = "0s"

      aggregations {
        alignment_period     = "300s"
        per_series_aligner   = "ALIGN_DELTA"
        cross_series_reducer = "REDUCE_MEAN"
        group_by_fields      = ["metric.label.feed"]
      }
    }
  }

  documentation {
    mime_type = "text/markdown"
    content   = "See the page Snapshots in Airflow, and the entry \"late\" of docs/runbook.md."
  }

  # Cloud Monitoring may not know a metric of the log until ten minutes after it was made. Making Airflow takes longer.
  depends_on = [google_composer_environment.airflow]
}

# Works while Airflow is down, when nothing of this project can send an alert.
resource "google_monitoring_alert_policy" "watchdog_silent" {
  display_name          = "${var.name}: nobody checks whether tables are fresh"
  combiner              = "OR"
  notification_channels = var.notification_channels
  user_labels           = local.labels

  conditions {
    display_name = "No check of the watchdog for 20 minutes"

    condition_absent {
      filter   = "resource.type = \"cloud_composer_environment\" AND metric.type = \"${local.feeds_checked}\""
      duration = "1200s"

      aggregations {
        alignment_period     = "300s"
        per_series_aligner   = "ALIGN_DELTA"
        cross_series_reducer = "REDUCE_MEAN"
      }
    }
  }

  documentation {
    mime_type = "text/markdown"
    content   = "The DAG freshness_watchdog is paused or fails, Airflow is down, or the state bucket cannot be read. No other alert of this project is sent meanwhile."
  }

  depends_on = [google_composer_environment.airflow] # as above
}

resource "google_monitoring_dashboard" "freshness" {
  dashboard_json = jsonencode({
    displayName = "${var.name}: freshness"
    labels      = local.labels
    mosaicLayout = {
      columns = 12
      tiles = [
        for position, gauge in [
          { name = "sla_share_used", title = "Share of the freshness SLA used by the oldest waiting delivery" },
          { name = "lag_seconds", title = "Arrival to swap of the last publish" },
          { name = "age_seconds", title = "Age of the live snapshot" },
          { name = "incidents_open", title = "Open incidents" },
          ] : {
          width  = 6
          height = 4
          xPos   = position % 2 * 6
          yPos   = floor(position / 2) * 4
          widget = {
            title = gauge.title
            xyChart = {
              dataSets = [{
                plotType   = "LINE"
                targetAxis = "Y1"
                timeSeriesQuery = {
                  timeSeriesFilter = {
                    filter = "resource.type = \"cloud_composer_environment\" AND metric.type = \"logging.googleapis.com/user/${google_logging_metric.feed[gauge.name].name}\""
                    aggregation = {
                      alignmentPeriod    = "300s"
                      perSeriesAligner   = "ALIGN_DELTA"
                      crossSeriesReducer = "REDUCE_MEAN"
                      groupByFields      = ["metric.label.feed"]
                    }
                  }
                }
              }]
            }
          }
        }
      ]
    }
  })
}
