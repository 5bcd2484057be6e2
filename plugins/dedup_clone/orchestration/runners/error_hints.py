"""Finds the cause of an error of Dataproc or BigQuery in its message, and says what an operator should do.

The message comes from a call that failed, or from the status of a Spark run that failed later.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from dedup_clone.settings.spark_settings import SparkSettings


@dataclass(frozen=True)
class Hint:
    """What is wrong and what to do (`text`), and whether a retry cannot help (`permanent`)."""

    text: str
    permanent: bool


@dataclass(frozen=True)
class ErrorHints:
    """Makes hints with commands that operators can copy: they contain the project's id and values of `settings`."""

    project: str
    settings: SparkSettings

    def for_message(self, message: str) -> Hint | None:
        """The hint for an error message; None if its cause is not known."""
        text = message.lower()
        for patterns, hint in (  # the first that matches counts, so narrow patterns stand before wide ones
            (
                (
                    "not have enough resources available",
                    "vm instance is currently unavailable",
                    "resource_pool_exhausted",
                    "stockout",
                ),
                self._no_capacity,
            ),
            (("quota exceeded for quota metric",), self._requests_exhausted),
            (("quota", "resourceexhausted", "resource_exhausted", "ratelimitexceeded"), self._quota_exhausted),
            (("domain name not found",), self._no_region),
            (("dns resolution failed", "name resolution", "could not resolve"), self._not_resolved),
            (("has not been used in project", "it is disabled", "service_disabled"), self._api_disabled),
            (("actas", "serviceaccountuser", "act as service account"), self._act_as_denied),
            (
                (
                    "dataproc.tasks",
                    "dataproc worker",
                    "dataproc.worker",
                    "permissions are missing for the default service account",
                    "staging bucket permissions",
                ),
                self._worker_role_missing,
            ),
            (("driver compute node failed to initialize",), self._driver_not_started),
            (("private google access", "private ip google access"), self._no_private_access),
            (("requires explicit subnetworks",), self._no_subnetwork),
            (("preempt",), self._preempted),
        ):
            if any(pattern in text for pattern in patterns):
                return hint()
        if re.search(r"subnetworks/\S+ was not found", text):
            return self._no_subnetwork()
        missing = re.search(r"not found.*clusters/([a-z0-9-]+)", text)
        return self._no_cluster(missing[1]) if missing else None

    def permission_denied(self) -> Hint:
        """The hint for a call that was denied (status 403) and whose message has no hint in `for_message`."""
        return Hint(
            f"Airflow's service account lacks a role in project [{self.project}]: `gcloud projects "
            f"add-iam-policy-binding {self.project} --member=serviceAccount:AIRFLOW_SERVICE_ACCOUNT "
            f"--role=roles/dataproc.editor` (for runner bigquery_procedure: roles/bigquery.user, and "
            f"roles/bigquery.connectionAdmin on the connection), then clear the run.",
            permanent=True,
        )

    def _no_cluster(self, cluster: str) -> Hint:
        if self.settings.cluster.name is None:  # each run creates a cluster
            return Hint(
                f"Cluster [{cluster}] was deleted before its job was submitted. The task tries again by itself.",
                permanent=False,
            )
        return Hint(
            f"Cluster [{cluster}] is not in project [{self.project}], region [{self._region}]: see `gcloud dataproc "
            f"clusters list --region={self._region} --project={self.project}`, then correct [spark.cluster.name] or "
            f"[spark.region] in the profile, or remove the name, so that each run creates a cluster.",
            permanent=True,
        )

    def invalid_request(self) -> Hint:
        """The hint for a request that the service rejected as invalid. The service's message says what is wrong."""
        return Hint("Correct section [spark] of the profile or of the feed, then clear the run.", permanent=True)

    def unknown(self) -> Hint:
        """The hint for any other error."""
        return Hint("The task tries again by itself.", permanent=False)

    @property
    def _region(self) -> str:
        return self.settings.region or "-"

    def _quota_exhausted(self) -> Hint:
        return Hint(
            f"A quota of project [{self.project}] in region [{self._region}] is exhausted: see `gcloud compute regions "
            f"describe {self._region} --project={self.project} --flatten=quotas "
            f"--format='table(quotas.metric,quotas.usage,quotas.limit)'`, request a higher quota, or set a smaller "
            f"[spark.max_executors] in the feed. The task tries again by itself.",
            permanent=False,
        )

    def _requests_exhausted(self) -> Hint:
        return Hint(
            f"Project [{self.project}] has used up the requests of this minute in region [{self._region}]. The task "
            f"tries again by itself. If this lasts, see what else calls the API: `gcloud logging read "
            f"protoPayload.serviceName=dataproc.googleapis.com --project={self.project} --freshness=10m`.",
            permanent=False,
        )

    def _no_capacity(self) -> Hint:
        return Hint(
            f"Google has too few machines in region [{self._region}] now. The task tries again by itself. If this "
            f"lasts, set a smaller [spark.max_executors] in the feed or another [spark.cluster.machine_type] in the "
            f"profile, or publish with engine [bigquery] in a replay.",
            permanent=False,
        )

    def _no_region(self) -> Hint:
        return Hint(
            f"Region [{self._region}] has no Dataproc, or Airflow's network cannot resolve its address: see `gcloud "
            f"compute regions list --project={self.project}`, then correct [spark.region] in the profile.",
            permanent=True,
        )

    def _not_resolved(self) -> Hint:
        return Hint(
            f"A host name could not be resolved. The task tries again by itself. If this lasts, see whether Airflow's "
            f"network has DNS, and whether region [{self._region}] has Dataproc.",
            permanent=False,
        )

    def _api_disabled(self) -> Hint:
        return Hint(
            f"The API is not enabled in project [{self.project}]: `gcloud services enable dataproc.googleapis.com "
            f"dataprocrm.googleapis.com bigqueryconnection.googleapis.com --project={self.project}`, "
            f"wait a minute, then clear the run.",
            permanent=True,
        )

    def _act_as_denied(self) -> Hint:
        account = self._spark_account
        return Hint(
            f"Airflow may not run Spark as [{account}]: `gcloud iam service-accounts add-iam-policy-binding {account} "
            f"--member=serviceAccount:AIRFLOW_SERVICE_ACCOUNT --role=roles/iam.serviceAccountUser "
            f"--project={self.project}`, then clear the run.",
            permanent=True,
        )

    @property
    def _spark_account(self) -> str:
        return self.settings.service_account or "SPARK_SERVICE_ACCOUNT"

    @property
    def _grant_of_worker_role(self) -> str:
        return (
            f"`gcloud projects add-iam-policy-binding {self.project} --member=serviceAccount:{self._spark_account} "
            f"--role=roles/dataproc.worker` (`make doctor` prints this command with the condition that limits the "
            f"role to one bucket)"
        )

    def _worker_role_missing(self) -> Hint:
        return Hint(
            f"Service account [{self._spark_account}] may not run Spark: {self._grant_of_worker_role}, then clear the "
            f"run.",
            permanent=True,
        )

    def _driver_not_started(self) -> Hint:
        return Hint(
            f"Spark's driver did not start in time. The task tries again by itself. If this repeats, grant service "
            f"account [{self._spark_account}] the role in case it is missing: {self._grant_of_worker_role}, and see "
            f"that subnetwork [{self.settings.subnetwork or 'default'}] lets machines reach each other and Google's "
            f"services.",
            permanent=False,
        )

    def _no_subnetwork(self) -> Hint:
        place = self.settings.subnetwork_place(self.project)
        return Hint(
            f"Subnetwork [{place.name}] is not in project [{place.project}], region [{self._region}]: see `gcloud "
            f"compute networks subnets list --filter=region:{self._region} --project={place.project}`, then name one "
            f"in [spark.subnetwork] of the profile (one of another project as "
            f"projects/PROJECT/regions/{self._region}/subnetworks/NAME), then clear the run.",
            permanent=True,
        )

    def _no_private_access(self) -> Hint:
        place = self.settings.subnetwork_place(self.project)
        return Hint(
            f"Subnetwork [{place.name}] has no Private Google Access, which machines without public addresses need: "
            f"`gcloud compute networks subnets update {place.name} --region={self._region} "
            f"--enable-private-ip-google-access --project={place.project}`, or name another in [spark.subnetwork] of "
            f"the profile; then clear the run.",
            permanent=True,
        )

    def _preempted(self) -> Hint:
        return Hint("Machines were preempted during the run. The task tries again by itself.", permanent=False)
