"""What Dataproc needs in its region: a subnetwork with Private Google Access, open to itself, and free quota."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any

from dedup_clone.settings.spark import Runner
from deploy.doctor.finding import Finding, Level, Patient, ok
from deploy.doctor.google import Refused

# The smallest batch: a driver and two executors of four cores, each with the service's default disk of 400 GB.
SMALLEST_RUN = {"CPUS": 12, "DISKS_TOTAL_GB": 1200}


def check_network(patient: Patient) -> Iterator[Finding]:
    spark = patient.profile.spark
    if patient.profile.runner not in (Runner.SERVERLESS, Runner.CLUSTER) or spark.region is None:
        return
    root = f"https://compute.googleapis.com/compute/v1/projects/{patient.profile.project}"
    yield from _quota(patient, root, spark.region)
    name = (spark.subnetwork or "default").rpartition("/")[2]
    try:
        subnetwork = patient.google.get(f"{root}/regions/{spark.region}/subnetworks/{name}")
    except Refused as refused:
        text = f"[{name}] in [{spark.region}] cannot be read, {refused}"
        command = f"gcloud compute networks subnets list --regions={spark.region} --project={patient.profile.project}"
        yield Finding(Level.FAIL, "subnetwork", text, command)
        return
    if subnetwork.get("privateIpGoogleAccess"):
        yield ok("subnetwork", f"[{name}] reaches Google's APIs without public addresses.")
    else:
        text = f"[{name}] has no Private Google Access: batches have no public address and reach no bucket."
        command = f"gcloud compute networks subnets update {name} --region={spark.region} "
        command += f"--project={patient.profile.project} --enable-private-ip-google-access"
        yield Finding(Level.FAIL, "subnetwork", text, command)
    yield from _open_to_itself(patient, root, subnetwork)


def _open_to_itself(patient: Patient, root: str, subnetwork: dict[str, Any]) -> Iterator[Finding]:
    network, own = subnetwork["network"], ipaddress.ip_network(subnetwork["ipCidrRange"])
    rules = patient.google.items(f"{root}/global/firewalls", "items")
    if any(rule["network"] == network and _admits(rule, own) for rule in rules):
        yield ok("firewall", f"driver and executors in [{own}] reach each other.")
        return
    short = network.rpartition("/")[2]
    text = f"no rule of network [{short}] admits all TCP from [{own}] to all of it: executors cannot reach the driver."
    command = f"gcloud compute firewall-rules create {short}-spark-internal --project={patient.profile.project} "
    command += f"--network={short} --direction=INGRESS --allow=tcp,udp,icmp --source-ranges={own}"
    yield Finding(Level.FAIL, "firewall", text, command)


def _admits(rule: dict[str, Any], own: Any) -> bool:
    """Ingress of every TCP port from the whole subnetwork, to every machine."""
    narrowed = rule.get("targetTags") or rule.get("targetServiceAccounts")
    if rule.get("disabled") or rule.get("direction", "INGRESS") != "INGRESS" or narrowed:
        return False
    every_port = [
        allowed
        for allowed in rule.get("allowed", [])
        if allowed["IPProtocol"] in ("all", "tcp") and allowed.get("ports", ["0-65535"]) == ["0-65535"]
    ]
    ranges = [ipaddress.ip_network(text) for text in rule.get("sourceRanges", [])]
    covered = any(own.version == wide.version and own.subnet_of(wide) for wide in ranges)
    return bool(every_port) and covered


def _quota(patient: Patient, root: str, region: str) -> Iterator[Finding]:
    try:
        quotas = patient.google.get(f"{root}/regions/{region}").get("quotas", [])
    except Refused as refused:
        command = "gcloud compute regions list"
        yield Finding(Level.FAIL, "region", f"[{region}] cannot be read, {refused}", command)
        return
    for quota in quotas:
        needed = SMALLEST_RUN.get(quota["metric"])
        if needed is None:
            continue
        free = quota["limit"] - quota["usage"]
        if free < needed:
            text = f"[{free:g}] of [{quota['limit']:g}] are free in [{region}], the smallest run needs [{needed}]."
            command = f"https://console.cloud.google.com/iam-admin/quotas?project={patient.profile.project}"
            yield Finding(Level.FAIL, f"quota {quota['metric']}", text, command)
        else:
            yield ok(f"quota {quota['metric']}", f"{free:g} of {quota['limit']:g} are free in {region}.")
