# No default expiration of tables or partitions: feeds state theirs, and a swap makes target anew.
resource "google_bigquery_dataset" "warehouse" {
  dataset_id            = var.dataset
  location              = local.location
  description           = "Tables that dedup-clone publishes, with their staging tables."
  storage_billing_model = "LOGICAL"
  max_time_travel_hours = "168"
  labels                = local.labels

  lifecycle {
    prevent_destroy = true
  }

  depends_on = [google_project_service.needed]
}
