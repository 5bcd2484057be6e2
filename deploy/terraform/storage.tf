resource "google_storage_bucket" "landing" {
  name                        = "${var.project}-landing"
  location                    = var.location
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

# No lifecycle rule here: manifests name what is kept, and the project prunes by itself.
resource "google_storage_bucket" "state" {
  name                        = "${var.project}-dedup-clone-state"
  location                    = var.location
  storage_class               = "STANDARD"
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"
  labels                      = local.labels

  # Every publish prunes a generation: soft-deleted ones would be billed for a week, 42 of them at six a day.
  soft_delete_policy {
    retention_duration_seconds = 0
  }

  lifecycle {
    prevent_destroy = true
  }

  depends_on = [google_project_service.needed]
}
