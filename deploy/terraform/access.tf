resource "google_service_account" "of" {
  for_each = local.accounts

  account_id   = "${var.name}-${each.key}"
  display_name = each.value

  depends_on = [google_project_service.needed]
}

resource "google_project_iam_member" "granted" {
  for_each = local.project_grants

  project = var.project
  role    = each.value.role
  member  = google_service_account.of[each.value.who].member

  dynamic "condition" {
    for_each = can(each.value.only_bucket) ? [each.value.only_bucket] : []

    content {
      title      = "only_bucket_${condition.value}"
      expression = local.conditions[condition.value]
    }
  }
}

resource "google_bigquery_dataset_iam_member" "granted" {
  for_each = local.dataset_grants

  dataset_id = google_bigquery_dataset.warehouse.dataset_id
  role       = each.value.role
  member     = google_service_account.of[each.value.who].member
}

# The past of tables with row access policies, which each swap clones. roles/bigquery.dataOwner lacks this permission.
resource "google_project_iam_custom_role" "read_past" {
  count = var.row_policies ? 1 : 0

  project     = var.project
  role_id     = "dedupCloneReadPast"
  title       = "Read the past of tables with row access policies"
  permissions = ["bigquery.rowAccessPolicies.overrideTimeTravelRestrictions"]

  depends_on = [google_project_service.needed]
}

resource "google_bigquery_dataset_iam_member" "read_past" {
  count = var.row_policies ? 1 : 0

  dataset_id = google_bigquery_dataset.warehouse.dataset_id
  role       = google_project_iam_custom_role.read_past[0].name
  member     = google_service_account.of["airflow"].member
}

# Each swap clones staging, with its tagged columns. Tags may be in another project, whose API must be enabled, too.
resource "google_data_catalog_policy_tag_iam_member" "read_tagged" {
  for_each = toset(var.policy_tags)

  policy_tag = each.value
  role       = "roles/datacatalog.categoryFineGrainedReader"
  member     = google_service_account.of["airflow"].member

  depends_on = [google_project_service.policy_tags]
}

resource "google_bigquery_dataset_iam_member" "readers" {
  for_each = toset(var.readers)

  dataset_id = google_bigquery_dataset.warehouse.dataset_id
  role       = "roles/bigquery.dataViewer"
  member     = each.value
}

resource "google_service_account_iam_member" "producers" {
  for_each = toset(var.producers)

  service_account_id = google_service_account.of["producer"].name
  role               = "roles/iam.serviceAccountTokenCreator"
  member             = each.value
}

resource "google_storage_bucket_iam_member" "granted" {
  for_each = local.bucket_grants

  bucket = each.value.place == "landing" ? google_storage_bucket.landing.name : google_storage_bucket.state.name
  role   = each.value.role
  member = google_service_account.of[each.value.who].member
}

resource "google_service_account_iam_member" "granted" {
  for_each = local.account_grants

  service_account_id = google_service_account.of[each.value.place].name
  role               = each.value.role
  member             = google_service_account.of[each.value.who].member
}
