"""Lists the REST methods, parameters and request fields that the stand-in supports.

The routes and the validation of requests are derived from these lists, and so are the values of fields that
reference.py prints. A request that sets a field that is not listed is refused. In the name of a field, `*` stands for
any key.
"""

from __future__ import annotations

from dataclasses import dataclass

COMMON_PARAMETERS = frozenset({"alt", "fields", "key", "prettyPrint", "quotaUser", "$.xgafv", "access_token"})


@dataclass(frozen=True)
class Method:
    """One method of BigQuery's REST API.

    `http`: the HTTP verb. `path`: relative to /bigquery/v2/. `parameters`, `fields`: the supported query parameters and
    fields of the request's body. `body`: the name of the body's schema in the discovery document; None for no body.
    """

    id: str
    http: str
    path: str
    parameters: frozenset[str] = frozenset()
    body: str | None = None
    fields: frozenset[str] = frozenset()


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TABLE_REFERENCE = "{0}.projectId {0}.datasetId {0}.tableId"
_SCHEMA_FIELDS = "schema.fields.* "  # parsed by TableField.from_api, which refuses unsupported keys
_LAYOUT = "timePartitioning.type timePartitioning.field timePartitioning.expirationMs clustering.fields "

DATASET_FIELDS = _words(
    "datasetReference.projectId datasetReference.datasetId location labels.* description friendlyName "
    "maxTimeTravelHours storageBillingModel defaultTableExpirationMs defaultPartitionExpirationMs"
)
TABLE_FIELDS = _words(
    _TABLE_REFERENCE.format("tableReference") + " " + _SCHEMA_FIELDS + _LAYOUT + "labels.* description friendlyName "
    "expirationTime requirePartitionFilter timePartitioning.requirePartitionFilter tableConstraints.primaryKey.columns "
    "encryptionConfiguration.kmsKeyName maxStaleness"
)
_QUERY_FIELDS = (
    "query useLegacySql useQueryCache priority parameterMode queryParameters.* defaultDataset.projectId "
    "defaultDataset.datasetId maximumBytesBilled createDisposition writeDisposition "
    "allowLargeResults "  # only legacy SQL needs it; GoogleSQL ignores it (REST reference of jobs)
    "tableDefinitions.* "  # parsed by parse_table_definitions, which refuses unsupported keys
    + _TABLE_REFERENCE.format("destinationTable")
)
_LOAD_FIELDS = (
    "sourceUris sourceFormat fileSetSpecType createDisposition writeDisposition parquetOptions.enableListInference "
    "parquetOptions.enumAsString schemaUpdateOptions "
    "encoding "
    + _SCHEMA_FIELDS + _LAYOUT
    + _TABLE_REFERENCE.format("destinationTable")
)  # fmt: skip
_EXTRACT_FIELDS = "destinationUri destinationUris destinationFormat compression printHeader " + _TABLE_REFERENCE.format(
    "sourceTable"
)
JOB_FIELDS = _words(
    "jobReference.projectId jobReference.jobId jobReference.location configuration.jobType configuration.dryRun "
    "configuration.labels.* configuration.jobTimeoutMs "
    + " ".join(f"configuration.query.{name}" for name in _QUERY_FIELDS.split())
    + " "
    + " ".join(f"configuration.load.{name}" for name in _LOAD_FIELDS.split())
    + " "
    + " ".join(f"configuration.extract.{name}" for name in _EXTRACT_FIELDS.split())
)
QUERY_REQUEST_FIELDS = _words(
    "query useLegacySql useQueryCache parameterMode queryParameters.* defaultDataset.projectId "
    "defaultDataset.datasetId maximumBytesBilled dryRun labels.* location maxResults timeoutMs requestId "
    "formatOptions.useInt64Timestamp formatOptions.timestampOutputFormat kind jobCreationMode jobTimeoutMs"
)

ROW_POLICY_FIELDS = _words(
    _TABLE_REFERENCE.format("rowAccessPolicyReference") + " rowAccessPolicyReference.policyId filterPredicate grantees"
)

# Output fields by schema: accepted in a request, and ignored.
READ_ONLY_FIELDS = {
    "Dataset": _words("kind etag id selfLink creationTime lastModifiedTime type access"),
    "Table": _words(
        "kind etag id selfLink creationTime lastModifiedTime type location numBytes numRows numLongTermBytes "
        "numPartitions numTotalLogicalBytes numActiveLogicalBytes numLongTermLogicalBytes cloneDefinition "
        "streamingBuffer"
    ),
    "Job": _words("kind etag id selfLink status statistics user_email"),
    "QueryRequest": frozenset(),
    "RowAccessPolicy": _words("etag creationTime lastModifiedTime"),
    "GetIamPolicyRequest": frozenset(),
    "TestIamPermissionsRequest": frozenset(),
}

# Fields of which only these values are supported.
ONLY_VALUES: dict[str, frozenset[object]] = {
    "configuration.jobType": frozenset({"QUERY", "LOAD", "EXTRACT"}),
    "configuration.query.useLegacySql": frozenset({False}),
    "configuration.query.priority": frozenset({"INTERACTIVE", "BATCH"}),
    "configuration.load.encoding": frozenset({"UTF-8"}),
    "useLegacySql": frozenset({False}),
    "jobCreationMode": frozenset({"JOB_CREATION_REQUIRED"}),
    "storageBillingModel": frozenset({"LOGICAL", "PHYSICAL"}),
}

_FORMAT = "formatOptions.useInt64Timestamp formatOptions.timestampOutputFormat "
_DATASETS, _DATASET = "projects/{project}/datasets", "projects/{project}/datasets/{dataset}"
_TABLES, _TABLE = f"{_DATASET}/tables", f"{_DATASET}/tables/{{table}}"
_ROW_POLICIES, _ROW_POLICY = f"{_TABLE}/rowAccessPolicies", f"{_TABLE}/rowAccessPolicies/{{policy}}"
_JOB = "projects/{project}/jobs/{job}"

METHODS = (
    Method("datasets.insert", "POST", _DATASETS, body="Dataset", fields=DATASET_FIELDS),
    Method("datasets.list", "GET", _DATASETS, _words("all maxResults pageToken")),
    Method("datasets.get", "GET", _DATASET, _words("accessPolicyVersion")),
    Method("datasets.patch", "PATCH", _DATASET, body="Dataset", fields=DATASET_FIELDS),
    Method("datasets.delete", "DELETE", _DATASET, _words("deleteContents")),
    Method("tables.insert", "POST", _TABLES, body="Table", fields=TABLE_FIELDS),
    Method("tables.list", "GET", _TABLES, _words("maxResults pageToken")),
    Method("tables.get", "GET", _TABLE, _words("view")),
    Method("tables.patch", "PATCH", _TABLE, body="Table", fields=TABLE_FIELDS),
    Method("tables.delete", "DELETE", _TABLE),
    Method("tables.testIamPermissions", "POST", f"{_TABLE}:testIamPermissions", body="TestIamPermissionsRequest",
           fields=_words("permissions")),
    Method("tabledata.list", "GET", f"{_TABLE}/data",
           _words(_FORMAT + "maxResults pageToken selectedFields startIndex")),
    Method("rowAccessPolicies.insert", "POST", _ROW_POLICIES, body="RowAccessPolicy", fields=ROW_POLICY_FIELDS),
    Method("rowAccessPolicies.list", "GET", _ROW_POLICIES, _words("pageSize pageToken")),
    Method("rowAccessPolicies.getIamPolicy", "POST", f"{_ROW_POLICY}:getIamPolicy", body="GetIamPolicyRequest",
           fields=_words("options.requestedPolicyVersion")),
    Method("rowAccessPolicies.testIamPermissions", "POST", f"{_ROW_POLICY}:testIamPermissions",
           body="TestIamPermissionsRequest", fields=_words("permissions")),
    Method("routines.list", "GET", f"{_DATASET}/routines", _words("maxResults pageToken")),
    Method("routines.get", "GET", f"{_DATASET}/routines/{{routine}}"),
    Method("jobs.insert", "POST", "projects/{project}/jobs", body="Job", fields=JOB_FIELDS),
    Method("jobs.list", "GET", "projects/{project}/jobs",
           _words("allUsers maxCreationTime maxResults minCreationTime pageToken parentJobId projection stateFilter")),
    Method("jobs.get", "GET", _JOB, _words("location projection")),  # the Python client sends projection
    Method("jobs.cancel", "POST", f"{_JOB}/cancel", _words("location projection")),
    Method("jobs.query", "POST", "projects/{project}/queries", body="QueryRequest", fields=QUERY_REQUEST_FIELDS),
    Method("jobs.getQueryResults", "GET", "projects/{project}/queries/{job}",
           _words(_FORMAT + "location maxResults pageToken startIndex timeoutMs")),
)  # fmt: skip
