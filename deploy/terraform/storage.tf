resource "google_storage_bucket" "landing" {
  name                        = local.bucket_names.landing
  location                    = local.location
  storage_class               = "STANDARD"
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"
  labels                      = local.labels

  # A snapshot is the size of the table: what the producer deletes must not be billed for another week.
  soft_delete_policy {
    retention_duration_seconds = 0
  }

  lifecycle_rule {
    action {
      type = "Delete"
    }
    condition {
      age = var.landing_days
    }
  }

  depends_on = [google_project_service.needed]
}

# Lifecycle rules delete only former versions: manifests name what is kept, and the project prunes by itself.
resource "google_storage_bucket" "state" {
  name                        = local.bucket_names.state
  location                    = local.location
  storage_class               = "STANDARD"
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"
  labels                      = local.labels

  # Records that were replaced or deleted by mistake can be restored for 30 days.
  versioning {
    enabled = true
  }

  lifecycle_rule {
    action {
      type = "Delete"
    }
    condition {
      days_since_noncurrent_time = var.record_versions_days
    }
  }

  # A generation is the size of the table. A prune deletes its files with their versions; this rule deletes what remains of
  # failed jobs.
  lifecycle_rule {
    action {
      type = "Delete"
    }
    condition {
      days_since_noncurrent_time = 1
      matches_suffix             = [".parquet", ".bin"]
    }
  }

  # Soft delete would bill every pruned generation for a week, 42 of them at six a day.
  soft_delete_policy {
    retention_duration_seconds = 0
  }

  lifecycle {
    prevent_destroy = true
  }

  depends_on = [google_project_service.needed]
}

# Airflow's bucket: DAGs, plugins, logs. It is made here, because a condition of a grant names it before Airflow exists.
# Managed Airflow requires the environment's own region, the class STANDARD, no retention and no hierarchy of folders.
resource "google_storage_bucket" "environment" {
  name                        = local.bucket_names.environment
  location                    = var.region
  storage_class               = "STANDARD"
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"
  labels                      = local.labels

  depends_on = [google_project_service.needed]
}

# Dataproc's bucket. Otherwise Dataproc would make buckets of its own, to which Spark's account may not write.
resource "google_storage_bucket" "spark_staging" {
  name                        = local.bucket_names.spark_staging
  location                    = var.region
  storage_class               = "STANDARD"
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"
  labels                      = local.labels

  soft_delete_policy {
    retention_duration_seconds = 0
  }

  lifecycle_rule {
    action {
      type = "Delete"
    }
    condition {
      age = 30
    }
  }

  depends_on = [google_project_service.needed]
}
