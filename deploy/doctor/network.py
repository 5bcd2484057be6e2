"""Checks what Dataproc needs in its region: a subnetwork with Private Google Access and a firewall rule, and quota."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any

from dedup_clone.settings.spark_settings import Runner
from deploy.doctor.finding import Finding, Level, LiveEnvironment, ok
from deploy.doctor.google_api import ApiError

# The smallest batch: a driver and two executors of four cores, each with the service's default disk of 400 GB.
SMALLEST_RUN = {"CPUS": 12, "DISKS_TOTAL_GB": 1200}


def check_network(live: LiveEnvironment) -> Iterator[Finding]:
    spark = live.profile.spark
    if live.profile.runner not in (Runner.SERVERLESS, Runner.CLUSTER) or spark.region is None:
        return
    root = f"https://compute.googleapis.com/compute/v1/projects/{live.profile.project}"
    yield from _quota(live, root, spark.region)
    name = (spark.subnetwork or "default").rpartition("/")[2]
    try:
        subnetwork = live.google.get(f"{root}/regions/{spark.region}/subnetworks/{name}")
    except ApiError as error:
        text = f"[{name}] in [{spark.region}] cannot be read, {error}"
        command = f"gcloud compute networks subnets list --regions={spark.region} --project={live.profile.project}"
        yield Finding(Level.FAIL, "subnetwork", text, command)
        return
    if subnetwork.get("privateIpGoogleAccess"):
        yield ok("subnetwork", f"[{name}] reaches Google's APIs without public addresses.")
    else:
        text = f"[{name}] has no Private Google Access: batches have no public address and reach no bucket."
        command = f"gcloud compute networks subnets update {name} --region={spark.region} "
        command += f"--project={live.profile.project} --enable-private-ip-google-access"
        yield Finding(Level.FAIL, "subnetwork", text, command)
    yield from _internal_traffic(live, root, subnetwork)


def _internal_traffic(live: LiveEnvironment, root: str, subnetwork: dict[str, Any]) -> Iterator[Finding]:
    network, own_range = subnetwork["network"], ipaddress.ip_network(subnetwork["ipCidrRange"])
    rules = live.google.items(f"{root}/global/firewalls", "items")
    if any(rule["network"] == network and _admits(rule, own_range) for rule in rules):
        yield ok("firewall", f"driver and executors in [{own_range}] reach each other.")
        return
    network_name = network.rpartition("/")[2]
    text = f"no rule of network [{network_name}] admits all TCP from [{own_range}] to all of its machines: "
    text += "executors cannot reach the driver."
    command = f"gcloud compute firewall-rules create {network_name}-spark-internal --project={live.profile.project} "
    command += f"--network={network_name} --direction=INGRESS --allow=tcp,udp,icmp --source-ranges={own_range}"
    yield Finding(Level.FAIL, "firewall", text, command)


def _admits(rule: dict[str, Any], own_range: Any) -> bool:
    """Whether a firewall rule admits every TCP port from the whole subnetwork to every machine."""
    narrowed = rule.get("targetTags") or rule.get("targetServiceAccounts")
    if rule.get("disabled") or rule.get("direction", "INGRESS") != "INGRESS" or narrowed:
        return False
    every_port = [
        allowed
        for allowed in rule.get("allowed", [])
        if allowed["IPProtocol"] in ("all", "tcp") and allowed.get("ports", ["0-65535"]) == ["0-65535"]
    ]
    ranges = [ipaddress.ip_network(text) for text in rule.get("sourceRanges", [])]
    covered = any(
        own_range.version == source_range.version and own_range.subnet_of(source_range) for source_range in ranges
    )
    return bool(every_port) and covered


def _quota(live: LiveEnvironment, root: str, region: str) -> Iterator[Finding]:
    try:
        quotas = live.google.get(f"{root}/regions/{region}").get("quotas", [])
    except ApiError as error:
        command = "gcloud compute regions list"
        yield Finding(Level.FAIL, "region", f"[{region}] cannot be read, {error}", command)
        return
    for quota in quotas:
        needed = SMALLEST_RUN.get(quota["metric"])
        if needed is None:
            continue
        free = quota["limit"] - quota["usage"]
        if free < needed:
            text = f"[{free:g}] of [{quota['limit']:g}] are free in [{region}], the smallest run needs [{needed}]."
            command = f"https://console.cloud.google.com/iam-admin/quotas?project={live.profile.project}"
            yield Finding(Level.FAIL, f"quota {quota['metric']}", text, command)
        else:
            yield ok(f"quota {quota['metric']}", f"{free:g} of {quota['limit']:g} are free in {region}.")
