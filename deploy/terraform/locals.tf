# The grants are one list, which the doctor and docs/security.md read too: grants.yaml.
locals {
  labels = { application = "dedup-clone" }

  services = [
    "bigquery.googleapis.com",
    "bigqueryreservation.googleapis.com",
    "composer.googleapis.com",
    "compute.googleapis.com",
    "dataproc.googleapis.com",
    "iam.googleapis.com",
    "storage.googleapis.com",
  ]

  accounts = {
    airflow  = "Runs the DAGs"
    spark    = "Runs the dedup job"
    producer = "Lands snapshots"
  }

  grants = {
    for grant in yamldecode(file("${path.module}/grants.yaml")) :
    "${grant.who} ${grant.role} ${grant.place}" => grant
  }

  project_grants = { for key, grant in local.grants : key => grant if grant.place == "project" }
  dataset_grants = { for key, grant in local.grants : key => grant if grant.place == "dataset" }
  bucket_grants  = { for key, grant in local.grants : key => grant if contains(["landing", "state"], grant.place) }
  account_grants = { for key, grant in local.grants : key => grant if contains(keys(local.accounts), grant.place) }
}
