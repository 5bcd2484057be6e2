variable "project" {
  description = "Project that holds everything."
  type        = string
}

variable "region" {
  description = "Where Airflow and Spark run."
  type        = string
  default     = "europe-west1"
}

variable "location" {
  description = "Location of buckets and dataset, by default the region. A multi-region of BigQuery (EU, US) costs more: docs/deploy.md."
  type        = string
  default     = null
}

variable "name" {
  description = "Prefix of the names of service accounts, network and environment."
  type        = string
  default     = "dedup-clone"

  # The longest account is NAME-producer, and the name of an account has at most 30 characters.
  validation {
    condition     = can(regex("^[a-z]([a-z0-9-]{0,19}[a-z0-9])?$", var.name))
    error_message = "At most 21 characters: small letters, digits and hyphens, beginning with a letter and not ending in a hyphen."
  }
}

variable "environment_name" {
  description = "The name by which feeds record which environment publishes them, by default PROJECT/REGION/NAME. See docs/deploy.md, Move feeds to another environment."
  type        = string
  default     = null
}

variable "own_buckets" {
  description = "Part of the names of the buckets that only this environment uses, for DAGs and for Dataproc. A second environment needs another one."
  type        = string
  default     = "dedup-clone"
}

variable "profile" {
  description = "The file of dags/profiles, without its ending, that the environment's DAGs read."
  type        = string
  default     = "gcp"
}

variable "google_cloud_connection" {
  description = "The profile's key of this name: the page Snapshots reads the state bucket with this connection."
  type        = string
  default     = "google_cloud_default"
}

variable "dataset" {
  description = "Dataset of staging, target, status and ledger."
  type        = string
  default     = "warehouse"
}

variable "landing_days" {
  description = "After how many days landed objects are deleted. A delivery must outlast an outage."
  type        = number
  default     = 7

  validation {
    condition     = var.landing_days >= 3
    error_message = "Deliveries of a long outage would be gone before they are published: at least 3 days."
  }
}

variable "readers" {
  description = "Who may read the dataset, as IAM members (group:analysts@example.org)."
  type        = list(string)
  default     = []
}

variable "producers" {
  description = "Who may land snapshots by impersonating the service account of the producer, as IAM members (serviceAccount:export@other-project.iam.gserviceaccount.com)."
  type        = list(string)
  default     = []
}

variable "row_policies" {
  description = "Whether a feed file declares row access policies or ever did: Airflow's account may then read the past of such tables."
  type        = bool
  default     = false
}

variable "policy_tags" {
  description = "Policy tags in feed files: Airflow's account gets Fine-Grained Reader on each (projects/P/locations/L/taxonomies/T/policyTags/N)."
  type        = list(string)
  default     = []
}

variable "notification_channels" {
  description = "Channels of Cloud Monitoring that are told when a freshness SLA is nearly missed or the watchdog is silent (projects/P/notificationChannels/N). Without one, both policies tell nobody."
  type        = list(string)
  default     = []
}

variable "image_version" {
  description = "Image of the Managed Airflow environment: Airflow 3.3.1 or later."
  type        = string
  default     = "composer-3-airflow-3.3.1"
}

variable "extra_packages" {
  description = "Further PyPI packages of the environment, each with its versions, or with \"\" for any (apache-airflow-providers-slack = \">=9\")."
  type        = map(string)
  default     = {}
}

variable "airflow_config_overrides" {
  description = "Further options of Airflow, or other values of those that environment.tf sets, as SECTION-OPTION (secrets-backend)."
  type        = map(string)
  default     = {}
}

variable "subnetwork_range" {
  description = "Addresses of the subnetwork in which Spark runs."
  type        = string
  default     = "10.64.0.0/20"
}

variable "record_versions_days" {
  description = "Days for which former versions of records in the state bucket can be restored."
  type        = number
  default     = 30
}
