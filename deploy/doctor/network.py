"""Checks what Dataproc needs in its region: a subnetwork with Private Google Access and a firewall rule, and quota."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from dedup_clone.settings.spark_settings import SparkSettings
from deploy.doctor.finding import Finding, Level, LiveEnvironment, fail, grant_to_user, ok, reading

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
    """Findings about subnetwork and firewall; none if no run creates machines in a known region."""
    spark = live.profile.spark
    if not live.creates_machines or spark.region is None:
        return
    place = _place(spark, live.project)
    command = f"gcloud compute networks subnets list --regions={spark.region} --project={place.project}"
    if place.region != spark.region:
        text = f"[{place.name}] is in [{place.region}], but Spark runs in [{spark.region}]."
        yield fail("subnetwork", text, command)
        return
    with _reading(live, place, "subnetwork", f"[{place.name}] in [{place.region}]", command):
        subnetwork = live.google.get(f"{_project_url(place.project)}/regions/{place.region}/subnetworks/{place.name}")
    if subnetwork.get("privateIpGoogleAccess"):
        yield ok("subnetwork", f"[{place.name}] reaches Google's APIs without public addresses.")
    else:
        text = f"[{place.name}] has no Private Google Access: Spark's machines have no public address and reach no "
        command = f"gcloud compute networks subnets update {place.name} --region={place.region} "
        command += f"--project={place.project} --enable-private-ip-google-access"
        yield fail("subnetwork", text + "bucket.", command)
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


def _reading(
    live: LiveEnvironment, place: SubnetworkPlace, subject: str, name: str, if_missing: str
) -> AbstractContextManager[None]:
    """As `reading`. In the project of a Shared VPC it gives only a warning: the user may lack rights there."""
    viewer = grant_to_user(place.project, "roles/compute.networkViewer")
    level = Level.FAIL if place.project == live.project else Level.WARN
    what = f"{name} of project [{place.project}]"
    return reading(subject, what, if_refused=viewer, if_missing=if_missing, level=level)


def _internal_traffic(live: LiveEnvironment, place: SubnetworkPlace, subnetwork: dict[str, Any]) -> Iterator[Finding]:
    network, own_range = subnetwork["network"], ipaddress.ip_network(subnetwork["ipCidrRange"])
    network_name = network.rpartition("/")[2]
    create = f"gcloud compute firewall-rules create {network_name}-spark-internal --project={place.project} "
    create += f"--network={network_name} --direction=INGRESS --allow=tcp,udp,icmp --source-ranges={own_range}"
    with _reading(live, place, "firewall", "the firewall rules", create):
        rules = list(live.google.items(f"{_project_url(place.project)}/global/firewalls", "items"))
    rules = [rule for rule in rules if rule["network"] == network and _concerns(rule, own_range, live.profile.spark)]
    # The rule with the lowest number decides; of equal ones a rule that denies.
    first = min(rules, key=lambda rule: (rule.get("priority", 1000), "allowed" in rule), default={})
    if "allowed" in first:
        yield ok("firewall", f"driver and executors in [{own_range}] reach each other.")
        return
    text = f"network [{network_name}] does not admit all TCP from [{own_range}] to Spark's machines: no rule does, or "
    create += f" --priority={max(first.get('priority', 1000) - 1, 0)}" if first else ""
    yield fail("firewall", text + "one denies it first. Executors cannot reach the driver.", create)


def _concerns(rule: dict[str, Any], own_range: Any, spark: SparkSettings) -> bool:
    """Whether a firewall rule admits, or denies, every TCP port from Spark's machines to Spark's machines.

    The rule's sources and targets can be named by tags or service accounts, the sources also by an address range that
    contains the whole subnetwork.
    """
    tags, accounts = set(spark.network_tags), {spark.service_account}
    targets = ((tags, rule.get("targetTags")), (accounts, rule.get("targetServiceAccounts")))
    concerns_others = any(named and own.isdisjoint(named) for own, named in targets)
    if rule.get("disabled") or rule.get("direction", "INGRESS") != "INGRESS" or concerns_others:
        return False
    every_port = [
        traffic
        for traffic in rule.get("allowed") or rule.get("denied", [])
        if traffic["IPProtocol"] in ("all", "tcp") and traffic.get("ports", EVERY_PORT[0]) in EVERY_PORT
    ]
    ranges = [ipaddress.ip_network(text) for text in rule.get("sourceRanges", [])]
    is_source = tags & {*rule.get("sourceTags", [])} or accounts & {*rule.get("sourceServiceAccounts", [])}
    covered = any(
        own_range.version == source_range.version and own_range.subnet_of(source_range) for source_range in ranges
    )
    return bool(every_port and (covered or is_source))


def check_region_quota(live: LiveEnvironment) -> Iterator[Finding]:
    """Whether the region has room for the smallest batch. No findings if no run creates machines in a known region."""
    project, region = live.project, live.profile.spark.region
    if not live.creates_machines or region is None:
        return
    command = f"gcloud compute regions list --project={project}"
    with reading("region", f"[{region}]", if_refused=command, if_missing=command):
        quotas = live.google.get(f"{_project_url(project)}/regions/{region}").get("quotas", [])
    for quota in quotas:
        needed, free = SMALLEST_BATCH.get(quota["metric"]), quota["limit"] - quota["usage"]
        if needed is None:
            continue
        if free < needed:
            text = f"[{free:g}] of [{quota['limit']:g}] are free in [{region}], the smallest batch needs [{needed}]."
            command = f"https://console.cloud.google.com/iam-admin/quotas?project={project}"
            yield fail(f"quota {quota['metric']}", text, command)
        else:
            yield ok(f"quota {quota['metric']}", f"{free:g} of {quota['limit']:g} are free in {region}.")
