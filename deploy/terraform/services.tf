resource "google_project_service" "needed" {
  for_each = local.services

  service            = each.key
  disable_on_destroy = false
}
