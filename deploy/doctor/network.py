"""Checks what Dataproc needs in its region: a subnetwork with Private Google Access and a firewall rule, and quota."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from dedup_clone.settings.spark_settings import SparkSettings
from deploy.doctor.finding import Finding, Level, LiveEnvironment, advice_after, grant_to_user, ok
from deploy.doctor.google_api import ApiError

# The smallest batch has a driver and two executors of four cores each, with the service's default disk of 400 GB each.
SMALLEST_BATCH = {"CPUS": 12, "DISKS_TOTAL_GB": 1200}
EVERY_PORT = (["0-65535"], ["1-65535"])  # in a firewall rule; nothing listens on port 0


@dataclass(frozen=True)
class SubnetworkPlace:
    """The subnetwork of Spark's machines. If it belongs to a Shared VPC, `project` is not the profile's project.

    The firewall rules of the subnetwork belong to `project`, too.
    """

    project: str
    region: str
    name: str


def check_network(live: LiveEnvironment) -> Iterator[Finding]:
    """Findings about quota, subnetwork and firewall; none if no run creates machines in a known region."""
    spark = live.profile.spark
    if not live.creates_machines or spark.region is None:
        return
    yield from _quota(live, spark.region)
    place = _place(spark, live.profile.project)
    command = f"gcloud compute networks subnets list --regions={spark.region} --project={place.project}"
    if place.region != spark.region:
        text = f"[{place.name}] is in [{place.region}], but Spark runs in [{spark.region}]."
        yield Finding(Level.FAIL, "subnetwork", text, command)
        return
    try:
        subnetwork = live.google.get(f"{_project_url(place.project)}/regions/{place.region}/subnetworks/{place.name}")
    except ApiError as error:
        yield _unreadable(live, place, "subnetwork", f"[{place.name}] in [{place.region}]", error, command)
        return
    if subnetwork.get("privateIpGoogleAccess"):
        yield ok("subnetwork", f"[{place.name}] reaches Google's APIs without public addresses.")
    else:
        text = f"[{place.name}] has no Private Google Access: Spark's machines have no public address and reach no "
        text += "bucket."
        command = f"gcloud compute networks subnets update {place.name} --region={place.region} "
        command += f"--project={place.project} --enable-private-ip-google-access"
        yield Finding(Level.FAIL, "subnetwork", text, command)
    yield from _internal_traffic(live, place, subnetwork)


def _place(spark: SparkSettings, project: str) -> SubnetworkPlace:
    """Where the subnetwork is. The setting is its name, its path `projects/P/regions/R/subnetworks/N`, or its URL.

    `project`, and the setting `region`, are used where the setting names no project or region.
    """
    parts = (spark.subnetwork or "default").split("/")
    following = dict(pairwise(parts))  # the part that follows each part
    return SubnetworkPlace(following.get("projects", project), following.get("regions", spark.region or ""), parts[-1])


def _project_url(project: str) -> str:
    return f"https://compute.googleapis.com/compute/v1/projects/{project}"


def _unreadable(
    live: LiveEnvironment, place: SubnetworkPlace, subject: str, name: str, error: ApiError, if_missing: str
) -> Finding:
    """A finding about something that cannot be read. `if_missing`: the command for something that does not exist.

    In the project of a Shared VPC an error other than 404 is only a warning: the user may lack rights there.
    """
    text = f"{name} of project [{place.project}] cannot be read, {error}"
    viewer = grant_to_user(place.project, "roles/compute.networkViewer")
    is_failure = error.status == 404 or place.project == live.profile.project
    command = advice_after(error, if_refused=viewer, if_missing=if_missing)
    return Finding(Level.FAIL if is_failure else Level.WARN, subject, text, command)


def _internal_traffic(live: LiveEnvironment, place: SubnetworkPlace, subnetwork: dict[str, Any]) -> Iterator[Finding]:
    network, own_range = subnetwork["network"], ipaddress.ip_network(subnetwork["ipCidrRange"])
    network_name = network.rpartition("/")[2]
    create = f"gcloud compute firewall-rules create {network_name}-spark-internal --project={place.project} "
    create += f"--network={network_name} --direction=INGRESS --allow=tcp,udp,icmp --source-ranges={own_range}"
    try:
        rules = list(live.google.items(f"{_project_url(place.project)}/global/firewalls", "items"))
    except ApiError as error:
        yield _unreadable(live, place, "firewall", "the firewall rules", error, create)
        return
    if any(rule["network"] == network and _admits(rule, own_range, live.profile.spark) for rule in rules):
        yield ok("firewall", f"driver and executors in [{own_range}] reach each other.")
        return
    text = f"no rule of network [{network_name}] admits all TCP from [{own_range}] to Spark's machines: "
    text += "executors cannot reach the driver."
    yield Finding(Level.FAIL, "firewall", text, create)


def _admits(rule: dict[str, Any], own_range: Any, spark: SparkSettings) -> bool:
    """Whether a firewall rule admits every TCP port from Spark's machines to Spark's machines.

    The rule's sources and targets can be named by tags or service accounts, the sources also by an address range that
    contains the whole subnetwork.
    """
    tags, accounts = set(spark.network_tags), {spark.service_account}
    targets = ((tags, rule.get("targetTags")), (accounts, rule.get("targetServiceAccounts")))
    concerns_others = any(named and own.isdisjoint(named) for own, named in targets)
    if rule.get("disabled") or rule.get("direction", "INGRESS") != "INGRESS" or concerns_others:
        return False
    every_port = [
        allowed
        for allowed in rule.get("allowed", [])
        if allowed["IPProtocol"] in ("all", "tcp") and allowed.get("ports", EVERY_PORT[0]) in EVERY_PORT
    ]
    ranges = [ipaddress.ip_network(text) for text in rule.get("sourceRanges", [])]
    is_source = tags & {*rule.get("sourceTags", [])} or accounts & {*rule.get("sourceServiceAccounts", [])}
    covered = any(
        own_range.version == source_range.version and own_range.subnet_of(source_range) for source_range in ranges
    )
    return bool(every_port and (covered or is_source))


def _quota(live: LiveEnvironment, region: str) -> Iterator[Finding]:
    project = live.profile.project
    try:
        quotas = live.google.get(f"{_project_url(project)}/regions/{region}").get("quotas", [])
    except ApiError as error:
        command = f"gcloud compute regions list --project={project}"
        yield Finding(Level.FAIL, "region", f"[{region}] cannot be read, {error}", command)
        return
    for quota in quotas:
        needed = SMALLEST_BATCH.get(quota["metric"])
        if needed is None:
            continue
        free = quota["limit"] - quota["usage"]
        if free < needed:
            text = f"[{free:g}] of [{quota['limit']:g}] are free in [{region}], the smallest batch needs [{needed}]."
            command = f"https://console.cloud.google.com/iam-admin/quotas?project={project}"
            yield Finding(Level.FAIL, f"quota {quota['metric']}", text, command)
        else:
            yield ok(f"quota {quota['metric']}", f"{free:g} of {quota['limit']:g} are free in {region}.")
