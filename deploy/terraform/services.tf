resource "google_project_service" "needed" {
  for_each = local.services

  service            = each.key
  disable_on_destroy = false
}

resource "google_project_service" "policy_tags" {
  count = length(var.policy_tags) > 0 ? 1 : 0

  service            = "datacatalog.googleapis.com"
  disable_on_destroy = false
}
