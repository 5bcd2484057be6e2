"""What Google's refusals mean for an operator: which setting, role, quota or network, and the command that mends it.

Refusals come as errors of a call, or hours of waiting later as the message of a failed run: the words are the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from dedup_clone.settings.spark import SparkSettings


@dataclass(frozen=True)
class Advice:
    """`text` says what is wrong and what to do. `final`: trying again cannot mend it."""

    text: str
    final: bool


@dataclass(frozen=True)
class Adviser:
    """Knows the place, so that commands can be copied as they are."""

    project: str
    settings: SparkSettings

    def on(self, message: str) -> Advice | None:
        """What to do about a refusal in these words; None when they say nothing known."""
        said = message.lower()
        for words, advise in (
            (("quota", "resourceexhausted", "resource_exhausted", "ratelimitexceeded"), self._quota),
            (("dns resolution failed", "name resolution", "could not resolve"), self._region),
            (("has not been used in project", "it is disabled", "service_disabled"), self._disabled),
            (("actas", "serviceaccountuser"), self._act_as),
            (("dataproc.tasks", "dataproc worker", "dataproc.worker"), self._worker),
            (("private google access", "private ip google access"), self._network),
            (("preempt",), self._preempted),
        ):
            if any(word in said for word in words):
                return advise()
        absent = re.search(r"not found.*clusters/([a-z0-9-]+)", said)
        return self._no_cluster(absent[1]) if absent else None

    def permission(self) -> Advice:
        """A call was refused, and its message names no more than a permission."""
        return Advice(
            f"Airflow's service account lacks a role in project [{self.project}]: `gcloud projects "
            f"add-iam-policy-binding {self.project} --member=serviceAccount:AIRFLOW_SERVICE_ACCOUNT "
            f"--role=roles/dataproc.editor` (for runner bigquery_procedure: roles/bigquery.user, and "
            f"roles/bigquery.connectionUser on the connection), then clear the task.",
            final=True,
        )

    def _no_cluster(self, cluster: str) -> Advice:
        return Advice(
            f"Cluster [{cluster}] is not in project [{self.project}], region [{self._r}]: see `gcloud dataproc "
            f"clusters list --region={self._r} --project={self.project}`, then correct [spark.cluster.name] or "
            f"[spark.region] in the profile, or leave the name out to have one made for each run.",
            final=True,
        )

    def refused(self) -> Advice:
        """The request itself is wrong, in a way that the service's own words must tell."""
        return Advice("Correct section [spark] of the profile or of the feed, then clear the task.", final=True)

    def passing(self) -> Advice:
        """Nothing is known to be wrong."""
        return Advice("The task tries again by itself.", final=False)

    @property
    def _r(self) -> str:
        return self.settings.region or "-"

    def _quota(self) -> Advice:
        return Advice(
            f"A quota of project [{self.project}] in region [{self._r}] is exhausted: see `gcloud compute regions "
            f"describe {self._r} --project={self.project} --flatten=quotas "
            f"--format='table(quotas.metric,quotas.usage,quotas.limit)'`, ask for more, or set a smaller "
            f"[spark.max_executors] in the feed. The task tries again by itself.",
            final=False,
        )

    def _region(self) -> Advice:
        return Advice(
            f"Region [{self._r}] has no Dataproc, or Airflow's network cannot resolve its address: see `gcloud compute "
            f"regions list --project={self.project}`, then correct [spark.region] in the profile.",
            final=True,
        )

    def _disabled(self) -> Advice:
        return Advice(
            f"The API is not enabled in project [{self.project}]: `gcloud services enable dataproc.googleapis.com "
            f"bigqueryconnection.googleapis.com --project={self.project}`, wait a minute, then clear the task.",
            final=True,
        )

    def _act_as(self) -> Advice:
        account = self.settings.service_account or "SPARK_SERVICE_ACCOUNT"
        return Advice(
            f"Airflow may not run Spark as [{account}]: `gcloud iam service-accounts add-iam-policy-binding {account} "
            f"--member=serviceAccount:AIRFLOW_SERVICE_ACCOUNT --role=roles/iam.serviceAccountUser "
            f"--project={self.project}`, then clear the task.",
            final=True,
        )

    def _worker(self) -> Advice:
        account = self.settings.service_account or "SPARK_SERVICE_ACCOUNT"
        return Advice(
            f"Service account [{account}] may not run Spark: `gcloud projects add-iam-policy-binding {self.project} "
            f"--member=serviceAccount:{account} --role=roles/dataproc.worker`, then clear the task.",
            final=True,
        )

    def _network(self) -> Advice:
        subnetwork = self.settings.subnetwork or "default"
        return Advice(
            f"Subnetwork [{subnetwork}] lets no machine without public address reach Google: `gcloud compute networks "
            f"subnets update {subnetwork} --region={self._r} --enable-private-ip-google-access "
            f"--project={self.project}`, or name another in [spark.subnetwork] of the profile; then clear the task.",
            final=True,
        )

    def _preempted(self) -> Advice:
        return Advice("Machines were taken back while it ran. The task tries again by itself.", final=False)
