resource "google_project_service" "needed" {
  for_each = toset(local.services)

  service            = each.value
  disable_on_destroy = false
}
