resource "google_composer_environment" "airflow" {
  name   = var.name
  region = var.region
  labels = local.labels

  storage_config {
    bucket = google_storage_bucket.environment.name
  }

  config {
    environment_size = "ENVIRONMENT_SIZE_SMALL"

    node_config {
      service_account = google_service_account.of["airflow"].email
    }

    software_config {
      image_version = var.image_version
      pypi_packages = merge(var.extra_packages, local.packages)

      # The web server sees plugins/ only, so the page Snapshots finds its data by these variables.
      env_variables = {
        DEDUP_CLONE_PROFILE                 = var.profile
        DEDUP_CLONE_STATE_BUCKET            = google_storage_bucket.state.name
        DEDUP_CLONE_ENVIRONMENT             = local.environment_name
        DEDUP_CLONE_GOOGLE_CLOUD_CONNECTION = var.google_cloud_connection
      }

      # Importing a DAG file takes seconds on a small machine. Managed Airflow refuses an import timeout that is shorter
      # than the processor's, and either above 600.
      airflow_config_overrides = merge({
        "core-dagbag_import_timeout"               = "120"
        "dag_processor-dag_file_processor_timeout" = "120"
      }, var.airflow_config_overrides)
    }

    workloads_config {
      scheduler {
        cpu        = 1
        memory_gb  = 4
        storage_gb = 1
        count      = 1
      }

      # Triggerers notice deliveries and wait for jobs; the second takes over when the first dies.
      triggerer {
        cpu       = 1
        memory_gb = 2
        count     = 2
      }

      dag_processor {
        cpu        = 1
        memory_gb  = 4
        storage_gb = 1
        count      = 1
      }

      web_server {
        cpu        = 1
        memory_gb  = 4
        storage_gb = 1
      }

      worker {
        cpu        = 1
        memory_gb  = 4
        storage_gb = 2
        min_count  = 1
        max_count  = 3
      }
    }
  }

  depends_on = [google_project_iam_member.granted]
}
