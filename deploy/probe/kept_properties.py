"""Assumptions about what tables keep beside their rows when a clone replaces them or a column changes its mode."""

from __future__ import annotations

from typing import Any

from google.api_core.exceptions import BadRequest, Forbidden

from dedup_clone.warehouse.table_alterations import TableAlterations
from deploy.probe.assumption import CannotTry, Register, expect
from deploy.probe.clones import swap
from deploy.probe.probe_dataset import ProbeDataset

assumption = Register()
COLUMNS = "day DATE, id INT64"
READER = {"role": "roles/bigquery.dataViewer", "members": ["allAuthenticatedUsers"]}


def make_table(probe: ProbeDataset, name: str, columns: str) -> str:
    """Make an empty table with the layout that this project uses, and return its full name."""
    table = probe.table(name)
    probe.query(f"CREATE TABLE `{table}` ({COLUMNS}, {columns}) PARTITION BY day CLUSTER BY id")
    return table


def fields_of(probe: ProbeDataset, name: str) -> dict[str, Any]:
    """The fields of the table's schema in the form of the REST API, by name."""
    found = probe.rest(f"datasets/{probe.name}/tables/{name}")
    return {field["name"]: field for field in found["schema"]["fields"]}


def resource_path(table: str) -> str:
    project, dataset, name = table.split(".")
    return f"/projects/{project}/datasets/{dataset}/tables/{name}"


@assumption(
    "clone-keeps-types-with-parameters",
    statement="A clone has the parameters of its source's types, such as those of STRING(10)",
    rule="A publish stops only if target has parameters that staging lacks: the clone brings those of staging.",
    code=("plugins/dedup_clone/warehouse/table_options.py",),
    instead="Have no parameterized types on target and staging.",
)
def clone_keeps_parameters(probe: ProbeDataset) -> str:
    """Clones a table with a STRING(10) and a NUMERIC(5, 2), twice onto the same target."""
    staging = make_table(probe, "parameters", "code STRING(10), share NUMERIC(5, 2)")
    for _ in range(2):
        swap(probe, probe.table("parameters_target"), staging)
    fields = fields_of(probe, "parameters_target")
    found = [fields["code"].get("maxLength"), fields["share"].get("precision"), fields["share"].get("scale")]
    expect("parameters of the clone", found, ["10", "5", "2"])
    return "The clone has STRING(10) and NUMERIC(5, 2)."


@assumption(
    "clone-keeps-default-values",
    statement="A clone has the default values of its source's columns",
    rule="A publish stops only if target has a default value that staging lacks: the clone brings those of staging.",
    code=("plugins/dedup_clone/warehouse/table_options.py", "plugins/dedup_clone/checks/option_checks.py"),
    instead="Have no default values on target: each publish would remove them.",
)
def clone_keeps_default_values(probe: ProbeDataset) -> str:
    """Gives a column of staging a default value, and clones staging onto a target that exists."""
    staging = make_table(probe, "defaults", "number INT64")
    swap(probe, probe.table("defaults_target"), staging)
    path = f"datasets/{probe.name}/tables/defaults"
    fields = probe.rest(path)["schema"]["fields"]
    with_default = [{**f, "defaultValueExpression": "7"} if f["name"] == "number" else f for f in fields]
    probe.rest(path, "PATCH", {"schema": {"fields": with_default}})
    swap(probe, probe.table("defaults_target"), staging)
    default = fields_of(probe, "defaults_target")["number"].get("defaultValueExpression")
    expect("default value of the clone", default, "7")
    return "The clone has the default value 7."


@assumption(
    "clone-keeps-foreign-keys",
    statement="A clone has the foreign keys of its source",
    rule="A publish stops only if target has a foreign key that staging lacks: the clone brings those of staging.",
    code=("plugins/dedup_clone/warehouse/table_options.py", "plugins/dedup_clone/checks/option_checks.py"),
    instead="Have no foreign keys on target: each publish would remove them.",
)
def clone_keeps_foreign_keys(probe: ProbeDataset) -> str:
    """Gives staging a foreign key to another table's primary key, and clones staging onto a target that exists."""
    staging = make_table(probe, "foreign_keys", "store_id INT64")
    swap(probe, probe.table("foreign_keys_target"), staging)
    probe.query(f"CREATE TABLE `{probe.table('stores')}` (id INT64, PRIMARY KEY (id) NOT ENFORCED)")
    stores = {"projectId": probe.dataset.split(".")[0], "datasetId": probe.name, "tableId": "stores"}
    pair = {"referencingColumn": "store_id", "referencedColumn": "id"}
    key = {"name": "to_stores", "referencedTable": stores, "columnReferences": [pair]}
    constraints = {"tableConstraints": {"foreignKeys": [key]}}
    probe.rest(f"datasets/{probe.name}/tables/foreign_keys", "PATCH", constraints)
    swap(probe, probe.table("foreign_keys_target"), staging)
    found = probe.rest(f"datasets/{probe.name}/tables/foreign_keys_target").get("tableConstraints", {})
    columns = [found_key["columnReferences"] for found_key in found.get("foreignKeys", [])]
    expect("columns of the clone's foreign keys", columns, [[pair]])
    return "The clone has the foreign key."


@assumption(
    "replacement-keeps-table-access",
    statement="A clone that replaces a table keeps the access that was granted on the table",
    rule="Whoever was granted access to target by IAM has it after each publish.",
    code=("sql/publish/swap_target.sql",),
    instead="Grant access on the dataset: each publish would revoke what was granted on target.",
)
def replacement_keeps_access(probe: ProbeDataset) -> str:
    """Grants a role on a target, replaces it by a clone, and reads the bindings."""
    staging, target = make_table(probe, "access", "number INT64"), probe.table("access_target")
    swap(probe, target, staging)
    request: Any = probe.client._connection.api_request
    path = resource_path(target)
    try:
        request(method="POST", path=f"{path}:setIamPolicy", data={"policy": {"bindings": [READER]}})
    except (BadRequest, Forbidden) as error:
        raise CannotTry(
            f"No role can be granted on a table here, perhaps by an organization policy: {error}"
        ) from error
    swap(probe, target, staging)
    bindings = request(method="POST", path=f"{path}:getIamPolicy", data={}).get("bindings", [])
    expect("bindings of the replaced table", bindings, [READER])
    return "The binding is there after the replacement."


@assumption(
    "replacement-keeps-authorized-views",
    statement="A dataset authorizes its views as before when a table that they read is replaced",
    rule="Readers who use target through authorized views are not locked out by a publish.",
    code=("sql/publish/swap_target.sql",),
    instead="Authorize the views anew after each publish, or grant their readers access to target.",
)
def replacement_keeps_authorized_views(probe: ProbeDataset) -> str:
    """Authorizes a view over target on the dataset, replaces target, and reads the dataset's list and the view."""
    staging, target = make_table(probe, "authorized", "number INT64"), probe.table("authorized_target")
    swap(probe, target, staging)
    probe.query(f"CREATE VIEW `{probe.table('authorized_view')}` AS SELECT number FROM `{target}`")
    view = {"projectId": probe.dataset.split(".")[0], "datasetId": probe.name, "tableId": "authorized_view"}
    access = probe.rest(f"datasets/{probe.name}").get("access", [])
    probe.rest(f"datasets/{probe.name}", "PATCH", {"access": [*access, {"view": view}]})
    swap(probe, target, staging)
    authorized = [e["view"] for e in probe.rest(f"datasets/{probe.name}").get("access", []) if "view" in e]
    expect("authorized views", authorized, [view])
    expect("rows of the view", probe.numbers(probe.table("authorized_view")), [])
    return "The dataset authorizes the view, and the view can be queried."


@assumption(
    "nested-column-relaxes",
    statement="tables.patch makes a REQUIRED field of a STRUCT and of an ARRAY of STRUCTs NULLABLE",
    rule="A publish makes columns NULLABLE whose `mode: REQUIRED` has left the feed file, nested ones too.",
    code=("plugins/dedup_clone/warehouse/table_alterations.py",),
    instead="Leave `mode: REQUIRED` of nested columns in the feed file, or rebuild the table.",
)
def nested_column_relaxes(probe: ProbeDataset) -> str:
    """Relaxes a REQUIRED field of a STRUCT and of an ARRAY, as a publish does, and inserts a row with NULL in both."""
    table = make_table(probe, "relaxed", "info STRUCT<x INT64 NOT NULL>, parts ARRAY<STRUCT<x INT64 NOT NULL>>")
    project = probe.dataset.split(".")[0]
    alterations = TableAlterations(probe.client, project=project, dataset=probe.name)
    alterations.relax_columns("relaxed", ["info.x", "parts.x"])
    nothing = "STRUCT(CAST(NULL AS INT64) AS x)"
    probe.query(f"INSERT INTO `{table}` (id, info, parts) VALUES (1, {nothing}, [{nothing}])")
    fields = fields_of(probe, "relaxed")
    modes = [fields[name]["fields"][0].get("mode", "NULLABLE") for name in ("info", "parts")]
    expect("modes of the fields", modes, ["NULLABLE", "NULLABLE"])
    return "Both fields are NULLABLE, and a row has NULL in them."
