resource "google_compute_network" "spark" {
  name                    = var.name
  auto_create_subnetworks = false

  depends_on = [google_project_service.needed]
}

# Batches have no public addresses: they reach Cloud Storage by Private Google Access.
resource "google_compute_subnetwork" "spark" {
  name                     = var.name
  network                  = google_compute_network.spark.id
  region                   = var.region
  ip_cidr_range            = var.subnetwork_range
  private_ip_google_access = true
}

# Driver and executors talk to each other on many ports, and to nobody else.
resource "google_compute_firewall" "spark" {
  name          = "${var.name}-spark-internal"
  network       = google_compute_network.spark.id
  direction     = "INGRESS"
  source_ranges = [var.subnetwork_range]

  allow {
    protocol = "tcp"
  }

  allow {
    protocol = "udp"
  }

  allow {
    protocol = "icmp"
  }
}
