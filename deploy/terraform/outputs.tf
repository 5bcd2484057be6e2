output "environment_yaml" {
  description = "Write this to deploy/environment.yaml, or to deploy/environment.PROFILE.yaml for another profile than gcp."
  value = yamlencode({
    name     = google_composer_environment.airflow.name
    region   = var.region
    bucket   = google_storage_bucket.environment.name
    airflow  = google_service_account.of["airflow"].email
    producer = google_service_account.of["producer"].email
  })
}

output "profile" {
  description = "Set these in the profile, dags/profiles/gcp.yaml."
  value = yamlencode({
    project        = var.project
    location       = local.location
    dataset        = google_bigquery_dataset.warehouse.dataset_id
    landing_bucket = google_storage_bucket.landing.name
    state_bucket   = google_storage_bucket.state.name
    spark = {
      region          = var.region
      service_account = google_service_account.of["spark"].email
      subnetwork      = google_compute_subnetwork.spark.name
      staging_bucket  = google_storage_bucket.spark_staging.name
    }
  })
}

output "airflow" {
  description = "Address of Airflow's pages."
  value       = google_composer_environment.airflow.config[0].airflow_uri
}
