# Grants and APIs are one list each, which the doctor reads too: grants.yaml, services.yaml.
locals {
  labels   = { application = "dedup-clone" }
  location = coalesce(var.location, var.region)

  environment_name = coalesce(var.environment_name, "${var.project}/${var.region}/${var.name}")

  services = { for service in yamldecode(file("${path.module}/services.yaml")) : service.api => service.why }

  packages = {
    for line in split("\n", file("${path.module}/../../requirements/composer.txt")) :
    split(">=", line)[0] => ">=${split(">=", line)[1]}" if can(regex("^[a-z]", line))
  }

  accounts = {
    airflow  = "Runs the DAGs"
    spark    = "Runs the dedup job"
    producer = "Lands snapshots"
  }

  grants = {
    for grant in yamldecode(file("${path.module}/grants.yaml")) :
    "${grant.who} ${grant.role} ${grant.place}" => grant
  }

  # What exists already, import before `terraform apply`. Buckets must have these names.
  #   terraform import -var-file=production.tfvars google_storage_bucket.landing PROJECT-landing
  #   terraform import -var-file=production.tfvars google_storage_bucket.state PROJECT-dedup-clone-state
  #   terraform import -var-file=production.tfvars google_bigquery_dataset.warehouse projects/PROJECT/datasets/warehouse
  # For a second environment in the project, with row_policies, also:
  #   terraform import -var-file=second.tfvars 'google_project_iam_custom_role.read_past[0]' \
  #     projects/PROJECT/roles/dedupCloneReadPast
  bucket_names = {
    landing       = "${var.project}-landing"
    state         = "${var.project}-dedup-clone-state"
    environment   = "${var.project}-${var.own_buckets}-airflow"
    spark_staging = "${var.project}-${var.own_buckets}-spark"
  }

  # A role on the project has its rights on every bucket of the project, unless a condition limits it to one of them.
  conditions = {
    for key, bucket in local.bucket_names : key => join(" || ", [
      "resource.service != \"storage.googleapis.com\"",
      "resource.name == \"projects/_/buckets/${bucket}\"",
      "resource.name.startsWith(\"projects/_/buckets/${bucket}/\")",
    ])
  }

  project_grants = { for key, grant in local.grants : key => grant if grant.place == "project" }
  dataset_grants = { for key, grant in local.grants : key => grant if grant.place == "dataset" }
  bucket_grants  = { for key, grant in local.grants : key => grant if contains(["landing", "state"], grant.place) }
  account_grants = { for key, grant in local.grants : key => grant if contains(keys(local.accounts), grant.place) }
}
