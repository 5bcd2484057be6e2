"""The doctor finds what is wrong, says how to mend it, and changes nothing."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import googleapiclient
import pytest

from dedup_clone.settings.spark_settings import Runner
from dedup_clone.warehouse.policies import READ_PAST
from deploy.doctor import row_policies
from deploy.doctor.all_checks import run_checks
from deploy.doctor.finding import Finding, Level, LiveEnvironment, findings_as_text
from deploy.doctor.google_api import GoogleApi
from deploy.environment_settings import read_environment, read_profile
from deploy.grants import read_grants
from tests.contract.doctor import answers as google
from tests.contract.doctor.answers import RecordedGoogle, healthy

ACCESS_TF = row_policies.REPOSITORY / "deploy" / "terraform" / "access.tf"
FEEDS = row_policies.FEEDS
WITH_TAG = f"{{column_tags: {{attr_value: {google.TAG}}}}}"
READ_BY_POST = (":getIamPolicy", ":getAncestry")
DOCUMENTS = Path(googleapiclient.__file__).parent / "discovery_cache" / "documents"


@contextmanager
def feed_with(policies: str) -> Iterator[None]:
    """The only feed has these policies."""
    text = (FEEDS / "product_attributes.yaml").read_text()
    declared = text.replace("  retention_days:", f"  policies: {policies}\n  retention_days:", 1)
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        (Path(folder) / "product_attributes.yaml").write_text(declared)
        patch.setattr(row_policies, "FEEDS", Path(folder))
        yield


def findings(
    answers: dict[str, Any] | RecordedGoogle,
    runner: Runner = Runner.SERVERLESS,
    *,
    location: str = "europe-west1",
    webhooks: tuple[str, ...] = ("on_call",),
    **settings: Any,
) -> list[Finding]:
    """Of the environment that gives these answers. `settings`: of the profile's section `spark`."""
    profile = read_profile()
    cluster = profile.spark.cluster.model_copy(update={"name": "standing"})
    place = {"service_account": google.SPARK, "subnetwork": "default", "cluster": cluster, **settings}
    spark = profile.spark.model_copy(update=place)
    alerts = profile.alerts.model_copy(update={"webhooks": webhooks})
    live = LiveEnvironment(
        GoogleApi(answers if isinstance(answers, RecordedGoogle) else RecordedGoogle(answers)),
        read_environment(),
        profile.model_copy(update={"spark": spark, "runner": runner, "location": location, "alerts": alerts}),
        read_grants(),
    )
    return run_checks(live)


def faults(answers: dict[str, Any]) -> dict[str, Finding]:
    return {f.subject: f for f in findings(answers) if f.level in (Level.FAIL, Level.WARN)}


def test_nothing_is_found_in_a_healthy_environment() -> None:
    assert faults(healthy()) == {}


def test_an_environment_where_nobody_is_told_of_incidents_is_refused_with_the_line_to_add() -> None:
    (found,) = [f for f in findings(healthy(), webhooks=()) if f.level is Level.FAIL]
    assert (found.subject, "nobody is told of incidents" in found.text) == ("alerts", True)
    assert "`webhooks: [CONNECTION]`" in found.command


def set_at(answers: dict[str, Any], url: str, path: str, value: Any) -> None:
    *parents, last = path.split(".")
    place = answers[url]
    for name in parents:
        place = place.setdefault(name, {})
    place[last] = value


DELETE_OLD = [{"action": {"type": "Delete"}, "condition": {"age": 1}}]
CASES = [
    # address, field, value, subject, level, word of the text, word of the command
    (google.LANDING, "location", "US", "landing bucket", "fail", "US", "relocate"),
    (google.LANDING, "lifecycle.rule", DELETE_OLD, "landing lifecycle", "fail", "after [1] days", "--lifecycle-file"),
    (google.STATE, "lifecycle.rule", DELETE_OLD, "state lifecycle", "fail", "rules that delete", "--clear-lifecycle"),
    (
        google.STATE,
        "softDeletePolicy.retentionDurationSeconds",
        "604800",
        "state soft delete",
        "warn",
        "[7] days",
        "--clear-soft-delete",
    ),
    (google.STATE, "versioning.enabled", False, "state versioning", "warn", "no former versions", "--versioning"),
    (
        google.STATE,
        "retentionPolicy",
        {"retentionPeriod": "60"},
        "state retention",
        "fail",
        "CURRENT",
        "--clear-retention-period",
    ),
    (
        google.STATE,
        "iamConfiguration.uniformBucketLevelAccess.enabled",
        False,
        "state bucket",
        "warn",
        "access lists",
        "--uniform-bucket-level-access",
    ),
    (google.STATE, "storageClass", "NEARLINE", "storage classes of the buckets", "warn", "moves its bytes", ""),
    (google.DATASET, "location", "us-east1", "dataset location", "fail", "[us-east1]", "in the profile"),
    (
        google.DATASET,
        "storageBillingModel",
        "PHYSICAL",
        "storage billing",
        "fail",
        "[PHYSICAL]",
        "--storage_billing_model=LOGICAL",
    ),
    (
        google.DATASET,
        "defaultTableExpirationMs",
        "3600000",
        "default expiration",
        "fail",
        "vanish",
        "--default_table_expiration=0",
    ),
    (google.DATASET, "maxTimeTravelHours", "48", "time travel", "warn", "[48] hours", "--max_time_travel_hours=168"),
    (google.DATASET, "access", [], "role of airflow", "fail", "roles/bigquery.dataOwner", "GRANT"),
    (
        google.SUBNETWORK,
        "privateIpGoogleAccess",
        False,
        "subnetwork",
        "fail",
        "Private Google Access",
        "--enable-private-ip-google-access",
    ),
    (google.FIREWALLS, "items", [], "firewall", "fail", "executors cannot reach", "firewall-rules create"),
    (
        google.REGION,
        "quotas",
        [{"metric": "CPUS", "limit": 24, "usage": 16}],
        "quota CPUS",
        "fail",
        "[8] of [24]",
        "quotas",
    ),
    (
        google.ENVIRONMENT,
        "config.softwareConfig.imageVersion",
        "composer-3-airflow-2.10.5-build.1",
        "Airflow version",
        "fail",
        "[3.3.1]",
        "--image-version",
    ),
    (
        google.ENVIRONMENT,
        "config.softwareConfig.webServerPluginsMode",
        "PLUGINS_DISABLED",
        "plugins",
        "fail",
        "Snapshots",
        "--support-web-server-plugins",
    ),
    (
        google.ENVIRONMENT,
        "config.softwareConfig.envVariables",
        {},
        "environment variables",
        "fail",
        "DEDUP_CLONE_STATE_BUCKET",
        "--update-env-variables",
    ),
    (
        google.ENVIRONMENT,
        "config.softwareConfig.envVariables.DEDUP_CLONE_PROFILE",
        "staging",
        "environment variables",
        "fail",
        "[DEDUP_CLONE_PROFILE] is [staging], expected [gcp]",
        "--update-env-variables=DEDUP_CLONE_PROFILE=gcp",
    ),
    (
        google.ENVIRONMENT,
        "config.workloadsConfig.triggerer.count",
        0,
        "triggerers",
        "fail",
        "no triggerer",
        "--triggerer-count",
    ),
    (
        google.ENVIRONMENT,
        "config.dagGcsPrefix",
        "gs://another/dags",
        "bucket",
        "fail",
        "gs://another/dags",
        "bucket: another",
    ),
    (
        google.ENVIRONMENT,
        "config.nodeConfig.serviceAccount",
        "x@y.iam.gserviceaccount.com",
        "service account",
        "fail",
        "x@y",
        "airflow: x@y",
    ),
    (google.ENVIRONMENT, "state", "ERROR", "environment", "fail", "[ERROR]", "describe"),
    (
        google.ENVIRONMENT,
        "config.softwareConfig.airflowConfigOverrides",
        {"core-dagbag_import_timeout": "120"},
        "import timeouts",
        "warn",
        "[dag_processor-dag_file_processor_timeout] is [None]",
        "--update-airflow-configs=dag_processor-dag_file_processor_timeout=120",
    ),
    (
        google.ENVIRONMENT,
        "config.softwareConfig.pypiPackages",
        {"pyarrow": ">=16"},
        "packages",
        "warn",
        "'pydantic'",
        "--update-pypi-packages-from-file=requirements/composer.txt",
    ),
    (google.SERVICES, "services", [], "APIs", "fail", "dataproc.googleapis.com", "gcloud services enable"),
]


@pytest.mark.parametrize(("url", "path", "value", "subject", "level", "word", "command"), CASES)
def test_each_fault_is_found_with_what_mends_it(
    url: str, path: str, value: Any, subject: str, level: str, word: str, command: str
) -> None:
    answers = healthy()
    set_at(answers, url, path, value)
    found = faults(answers)
    assert subject in found, found
    assert found[subject].level == level
    assert word in found[subject].text
    assert command in found[subject].command


def test_a_cluster_that_does_not_run_is_found() -> None:
    answers = healthy()
    assert [f.level for f in findings(answers, Runner.CLUSTER) if f.subject == "cluster"] == [Level.OK]
    set_at(answers, google.CLUSTER, "status.state", "STOPPED")
    (stopped,) = [f for f in findings(answers, Runner.CLUSTER) if f.subject == "cluster"]
    assert "clusters start standing" in stopped.command
    del answers[google.CLUSTER]
    (missing,) = [f for f in findings(answers, Runner.CLUSTER) if f.subject == "cluster"]
    assert "status [404]" in missing.text
    assert "clusters list" in missing.command


def test_what_runtime_3_needs_is_looked_for() -> None:
    answers = healthy()
    found = {f.subject: f for f in findings(answers, runtime_version="3.0") if f.level is Level.FAIL}
    assert set(found) == {"APIs", "runtime 3.0"}
    assert "gcloud services enable dataprocrm.googleapis.com" in found["APIs"].command
    assert "services identity create --service=dataprocrm.googleapis.com" in found["runtime 3.0"].command
    answers[google.SERVICES]["services"].append({"config": {"name": "dataprocrm.googleapis.com"}})
    agent = "serviceAccount:service-42@gcp-sa-dataprocrmnode.iam.gserviceaccount.com"
    answers[google.PROJECT_POLICY]["bindings"].append(granted("roles/dataprocrm.nodeServiceAgent", agent))
    assert [f for f in findings(answers, runtime_version="3.0") if f.level is Level.FAIL] == []
    assert [f for f in findings(healthy(), runtime_version="2.3") if f.subject == "runtime 3.0"] == []


def test_accounts_that_are_missing_or_disabled_are_found() -> None:
    answers = healthy()
    del answers[google.ACCOUNTS[google.PRODUCER]]
    set_at(answers, google.ACCOUNTS[google.AIRFLOW], "disabled", True)
    found = faults(answers)
    assert "create dedup-clone-producer" in found["service account of producer"].command
    assert f"enable {google.AIRFLOW}" in found["service account of airflow"].command


def test_an_environment_without_a_release_is_found() -> None:
    answers = healthy()
    del answers[google.SPARK_CODE]
    assert faults(answers)["Spark code"].command == "make deploy"


def test_spark_in_airflows_own_workers_is_refused_there() -> None:
    (finding,) = [f for f in findings(healthy(), Runner.LOCAL) if f.subject == "runner"]
    assert "runner: serverless" in finding.command


def test_each_missing_role_is_found() -> None:
    for url in (google.PROJECT_POLICY, google.SPARK_POLICY, f"{google.LANDING}/iam", f"{google.STATE}/iam"):
        whole = healthy()[url]["bindings"]
        for missing in range(len(whole)):
            answers = healthy()
            del answers[url]["bindings"][missing]
            (finding,) = [f for f in findings(answers) if f.level is Level.FAIL]
            assert whole[missing]["role"] in finding.text
            assert "add-iam-policy-binding" in finding.command


def test_a_grant_under_another_condition_is_not_believed() -> None:
    answers = healthy()
    answers[google.SPARK_POLICY]["bindings"][0]["condition"] = {"expression": "false"}
    assert "roles/iam.serviceAccountUser" in faults(answers)["role of airflow"].text


def test_a_role_that_reaches_every_bucket_is_told_with_the_condition_that_limits_it() -> None:
    answers = healthy()
    for binding in answers[google.PROJECT_POLICY]["bindings"]:
        binding.pop("condition", None)
    found = faults(answers)
    for who, bucket in (("airflow", "my-project-dedup-clone-airflow"), ("spark", "my-project-dedup-clone-spark")):
        assert f"every bucket of the project, expected only [{bucket}]" in found[f"role of {who}"].text
        grant, removal = found[f"role of {who}"].command.splitlines()
        assert f"projects/_/buckets/{bucket}/" in grant
        assert removal.endswith("--condition=None")
    assert google.SPARK in found["writers of environment"].text
    assert google.SPARK in found["writers of landing"].text


def writers(answers: dict[str, Any], bucket: str) -> dict[Level, Finding]:
    return {f.level: f for f in findings(answers) if f.subject == f"writers of {bucket}"}


def granted(role: str, member: str, **condition: str) -> dict[str, Any]:
    return {"role": role, "members": [member], **({"condition": condition} if condition else {})}


def test_of_a_healthy_environment_the_writers_are_those_of_the_list() -> None:
    assert google.PRODUCER in writers(healthy(), "landing")[Level.OK].text
    assert f"[{google.AIRFLOW}] and [{google.SPARK}]" in writers(healthy(), "state")[Level.OK].text
    assert google.AIRFLOW in writers(healthy(), "environment")[Level.OK].text
    assert google.SPARK in writers(healthy(), "spark_staging")[Level.OK].text


@pytest.mark.parametrize(
    ("url", "level", "removal"),
    [
        (
            f"{google.STATE}/iam",
            "buckets/my-project-dedup-clone-state",
            "storage buckets remove-iam-policy-binding gs://",
        ),
        (google.PROJECT_POLICY, "projects/my-project", "projects remove-iam-policy-binding my-project "),
        (google.FOLDER_POLICY, "folders/17", "resource-manager folders remove-iam-policy-binding 17 "),
        (google.ORGANIZATION_POLICY, "organizations/4", "organizations remove-iam-policy-binding 4 "),
    ],
)
def test_another_account_that_can_write_state_is_named_from_wherever_it_has_the_right(
    url: str, level: str, removal: str
) -> None:
    for role in ("roles/storage.admin", "projects/my-project/roles/uploader"):
        answers = healthy()
        answers[url].setdefault("bindings", []).append(granted(role, "serviceAccount:x@y.iam.gserviceaccount.com"))
        found = writers(answers, "state")[Level.WARN]
        assert f"serviceAccount:x@y.iam.gserviceaccount.com ({role} on {level})" in found.text
        assert removal in found.command


def test_a_right_to_read_is_no_right_to_write() -> None:
    answers = healthy()
    answers[f"{google.STATE}/iam"]["bindings"].append(granted("roles/storage.objectViewer", "allUsers"))
    assert set(writers(answers, "state")) == {Level.OK}
    answers[f"{google.STATE}/iam"]["bindings"].append(granted("roles/storage.objectUser", "allAuthenticatedUsers"))
    assert "allAuthenticatedUsers" in writers(answers, "state")[Level.WARN].text


def test_a_condition_that_cannot_be_evaluated_counts_as_a_right() -> None:
    answers = healthy()
    member = "serviceAccount:x@y.iam.gserviceaccount.com"
    answers[google.PROJECT_POLICY]["bindings"].append(granted("roles/storage.admin", member, expression="a || b"))
    assert "under a condition" in writers(answers, "state")[Level.WARN].text


def test_the_editors_of_the_project_write_a_bucket_that_names_them_as_a_group() -> None:
    answers = healthy()
    answers[f"{google.STATE}/iam"]["bindings"].append(
        granted("roles/storage.legacyBucketOwner", "projectEditor:my-project")
    )
    assert set(writers(answers, "state")) == {Level.OK}
    editor = "serviceAccount:42-compute@developer.gserviceaccount.com"
    answers[google.PROJECT_POLICY]["bindings"].append(granted("roles/editor", editor))
    assert f"{editor} (roles/storage.legacyBucketOwner on buckets/" in writers(answers, "state")[Level.WARN].text


def test_people_and_googles_own_agents_are_a_note() -> None:
    answers = healthy()
    agent = "serviceAccount:service-42@dataproc-accounts.iam.gserviceaccount.com"
    answers[google.PROJECT_POLICY]["bindings"] += [
        granted("roles/owner", "user:anna@example.com"),
        granted("roles/dataproc.serviceAgent", agent),
    ]
    found = writers(answers, "state")
    assert set(found) == {Level.OK, Level.NOTE}
    assert "user:anna@example.com" in found[Level.NOTE].text
    assert agent in found[Level.NOTE].text


def test_policies_that_may_not_be_read_are_said() -> None:
    answers = healthy()
    answers[google.FOLDER_POLICY] = 403
    answers["https://iam.googleapis.com/v1/roles/storage.objectUser"] = 403
    (found,) = [f for f in findings(answers) if f.subject == "writers of the buckets"]
    assert "a policy above the buckets, status [403]" in found.text
    assert "the rights on [my-project-landing], status [403]" in found.text


def test_an_account_that_may_do_everything_is_told() -> None:
    answers = healthy()
    owner = {"role": "roles/editor", "members": [f"serviceAccount:{google.SPARK}"]}
    answers[google.PROJECT_POLICY]["bindings"].append(owner)
    assert "remove-iam-policy-binding" in faults(answers)["role of spark"].command


@pytest.mark.parametrize("url", [google.LANDING, google.STATE, google.DATASET, google.SUBNETWORK, google.ENVIRONMENT])
def test_what_does_not_exist_is_a_finding_with_a_command(url: str) -> None:
    answers = healthy()
    del answers[url]
    failed = [f for f in findings(answers) if f.level is Level.FAIL]
    assert failed
    assert all(finding.command for finding in failed)
    assert "status [404]" in findings_as_text(failed)


def test_a_refused_question_takes_no_other_down() -> None:
    answers = healthy()
    answers[google.SERVICES] = 403
    answers[google.PROJECT_POLICY] = 403
    found = faults(answers)
    assert "status [403]" in found["services"].text
    assert "securityReviewer" in found["roles on project"].command
    assert any(f.subject == "triggerers" and f.level is Level.OK for f in findings(answers))


def test_an_account_without_any_right_gets_a_report_all_the_same() -> None:
    report = findings_as_text(findings(dict.fromkeys(healthy(), 403)))
    assert report.splitlines()[0].startswith("fail")


def placed(answers: dict[str, Any], *, profile: str, dataset: str, buckets: str) -> dict[str, Finding]:
    answers[google.ASSIGNMENTS.replace("europe-west1", profile)] = answers[google.ASSIGNMENTS]
    answers[google.DATASET]["location"] = dataset
    for url in (google.LANDING, google.STATE):
        answers[url]["location"] = buckets
    found = findings(answers, location=profile)
    return {f.subject: f for f in found if f.level in (Level.FAIL, Level.WARN)}


def test_a_multi_region_is_warned_of() -> None:
    found = placed(healthy(), profile="EU", dataset="EU", buckets="EU")
    assert {f.level for f in found.values()} == {Level.WARN}
    assert set(found) == {"dataset location", "landing bucket", "state bucket"}
    assert "--location=europe-west1" in found["state bucket"].command


def test_bigquery_loads_from_regions_inside_its_multi_region() -> None:
    found = placed(healthy(), profile="EU", dataset="EU", buckets="EUROPE-WEST1")
    assert set(found) == {"dataset location"}
    found = placed(healthy(), profile="EU", dataset="EU", buckets="EUROPE-WEST2")  # London is no part of BigQuery's EU
    assert set(found) == {"dataset location", "landing bucket", "state bucket"}


def test_a_pipeline_reservation_is_seen() -> None:
    answers = healthy()
    answers[google.ASSIGNMENTS] = {"assignments": [{"jobType": "PIPELINE", "state": "ACTIVE"}]}
    (finding,) = [f for f in findings(answers) if f.subject == "reservation"]
    assert finding.level is Level.OK


def test_it_asks_for_nothing_but_to_read() -> None:
    recorded = RecordedGoogle(healthy())
    run_checks(LiveEnvironment(GoogleApi(recorded), read_environment(), read_profile(), read_grants()))
    assert recorded.asked
    assert {method for method, url in recorded.asked if not url.endswith(READ_BY_POST)} == {"GET"}


@pytest.mark.parametrize("url", sorted(google.SCHEMAS))
def test_recorded_answers_have_the_fields_of_the_published_schemas(url: str) -> None:
    name, schema = google.SCHEMAS[url]
    schemas = json.loads((DOCUMENTS / f"{name}.json").read_text())["schemas"]
    assert list(departures(healthy()[url], schemas[schema], schemas, url)) == []


def departures(value: Any, schema: dict[str, Any], schemas: dict[str, Any], where: str) -> Iterator[str]:
    """What the schema does not know, and what it knows as something else."""
    schema = schemas[schema["$ref"]] if "$ref" in schema else schema
    kind = schema.get("type", "")
    types = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float)}
    if kind == "object" and "properties" not in schema:
        return
    if kind in types and not isinstance(value, types[kind]):
        yield f"{where}: {value!r} is no {kind}"
    elif kind == "object":
        for name, inner in value.items():
            if name in schema["properties"]:
                yield from departures(inner, schema["properties"][name], schemas, f"{where}.{name}")
            else:
                yield f"{where}.{name} is not known"
    elif kind == "array":
        for inner in value:
            yield from departures(inner, schema["items"], schemas, f"{where}[]")
    elif kind == "string" and value not in schema.get("enum", [value]):
        yield f"{where}: {value!r} is none of {schema['enum']}"


@cache
def every_question() -> RecordedGoogle:
    """What is asked of an environment with a cluster in which somebody has each role."""
    answers = healthy()
    answers[google.PROJECT_POLICY]["bindings"] += [granted(role, "user:anna@example.com") for role in google.ROLES]
    recorded = RecordedGoogle(answers)
    with feed_with(WITH_TAG):
        findings(recorded, Runner.CLUSTER)
    return recorded


@pytest.mark.parametrize("url", sorted(google.SCHEMAS))
def test_questions_are_methods_of_the_published_apis(url: str) -> None:
    name, schema = google.SCHEMAS[url]
    document = json.loads((DOCUMENTS / f"{name}.json").read_text())
    recorded = every_question()
    verb = "POST" if url.endswith(READ_BY_POST) else "GET"
    (method,) = [
        method
        for method in methods(document)
        if method["httpMethod"] == verb and re.fullmatch(address_of(document, method), url)
    ]
    assert method["response"]["$ref"] == schema
    assert set(recorded.parameters[url]) <= set(method["parameters"]) | set(document["parameters"])
    if "request" in method:
        request = document["schemas"][method["request"]["$ref"]]
        assert list(departures(recorded.bodies[url], request, document["schemas"], url)) == []
    else:
        assert not recorded.bodies[url]


def methods(resource: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from resource.get("methods", {}).values()
    for inner in resource.get("resources", {}).values():
        yield from methods(inner)


def address_of(document: dict[str, Any], method: dict[str, Any]) -> str:
    path = method.get("flatPath", method["path"])
    parts = re.split(r"\{[^}]+\}", path)
    root = re.sub(r"^https://www\.", f"https://{document['name']}.", document["rootUrl"])
    return re.escape(root + document["servicePath"]) + "[^/:]+".join(re.escape(part) for part in parts)


@feed_with(WITH_TAG)
def test_a_feed_with_policy_tags_needs_fine_grained_reader() -> None:
    """Impact on writes with column-level access control: a copy checks it on the source's tags."""
    answers = healthy()
    fault = faults(answers)["policy tags"]
    assert fault.level is Level.FAIL
    assert "policy-tags add-iam-policy-binding 2 --taxonomy=4 --location=eu --project=my-project" in fault.command
    reader = granted(row_policies.FINE_GRAINED_READER, f"serviceAccount:{google.AIRFLOW}")
    for url in (google.TAG_POLICY, google.PROJECT_POLICY):
        granting = copy.deepcopy(answers)
        granting[url].setdefault("bindings", []).append(reader)
        assert faults(granting) == {}
    answers[google.TAG_POLICY] = 403
    assert faults(answers)["policy tags"].level is Level.WARN
    assert f'"{row_policies.FINE_GRAINED_READER}"' in ACCESS_TF.read_text()


@feed_with("{row_access: [own_stores]}")
def test_a_feed_with_row_policies_needs_the_custom_role() -> None:
    """ "Data retention with time travel and fail-safe": dataOwner may not read the past of such a table."""
    fault = faults(healthy())["row access policies"]
    assert fault.level is Level.FAIL
    assert "[product_attributes]" in fault.text
    role = "projects/my-project/roles/dedupCloneReadPast"
    assert f"GRANT `{role}`" in fault.command
    answers = healthy()
    answers[google.DATASET]["access"].append({"role": role, "userByEmail": read_environment().airflow})
    assert faults(answers) == {}
    assert f'"{row_policies.ROLE_ID}"' in ACCESS_TF.read_text()
    assert f'["{READ_PAST}"]' in ACCESS_TF.read_text()
