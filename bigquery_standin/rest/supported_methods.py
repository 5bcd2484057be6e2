"""Lists the REST methods that the stand-in supports, with their handlers, parameters and request fields.

A request that sets another field is refused.
"""

from __future__ import annotations

from bigquery_standin.rest import (
    dataset_handlers,
    job_handlers,
    query_handlers,
    table_handlers,
)
from bigquery_standin.rest.google_api import Method

_TABLE_REFERENCE = "{0}.projectId {0}.datasetId {0}.tableId "
_SCHEMA_FIELDS = "schema.fields.* "  # parsed by TableField.from_api, which refuses unsupported keys
_LAYOUT = "timePartitioning.type timePartitioning.field timePartitioning.expirationMs clustering.fields "
_DATASET_FIELDS = (
    "datasetReference.projectId datasetReference.datasetId location labels.* "
    "defaultTableExpirationMs defaultPartitionExpirationMs"
)
_TABLE_FIELDS = (
    _TABLE_REFERENCE.format("tableReference")
    + _SCHEMA_FIELDS
    + _LAYOUT
    + "labels.* description friendlyName expirationTime requirePartitionFilter "
    "timePartitioning.requirePartitionFilter tableConstraints.primaryKey.columns encryptionConfiguration.kmsKeyName "
    "maxStaleness"
)
_COMMON_QUERY_FIELDS = "query useLegacySql useQueryCache parameterMode queryParameters.* maximumBytesBilled "
_JOB_FIELDS = {
    "query": _COMMON_QUERY_FIELDS
    + _TABLE_REFERENCE.format("destinationTable")
    + "priority createDisposition writeDisposition "
    "tableDefinitions.*",  # parsed by parse_table_definitions, which refuses unsupported keys
    "load": _SCHEMA_FIELDS
    + _TABLE_REFERENCE.format("destinationTable")
    + "sourceUris sourceFormat fileSetSpecType createDisposition writeDisposition schemaUpdateOptions encoding "
    "parquetOptions.enableListInference parquetOptions.enumAsString",
    "extract": _TABLE_REFERENCE.format("sourceTable") + "destinationUris destinationFormat compression",
}
_INSERTED_JOB_FIELDS = (
    "jobReference.projectId jobReference.jobId jobReference.location configuration.jobType configuration.dryRun "
    "configuration.labels.* configuration.jobTimeoutMs "
) + " ".join(f"configuration.{kind}.{name}" for kind, names in _JOB_FIELDS.items() for name in names.split())
_FORMAT = "formatOptions.useInt64Timestamp "
_PAGE = "maxResults pageToken "

METHODS = (
    Method("datasets.insert", dataset_handlers.insert_dataset, fields=_DATASET_FIELDS),
    Method("datasets.list", dataset_handlers.list_datasets, _PAGE),
    Method("datasets.get", dataset_handlers.get_dataset, "accessPolicyVersion"),
    Method("datasets.patch", dataset_handlers.patch_dataset, fields=_DATASET_FIELDS),
    Method("datasets.delete", dataset_handlers.delete_dataset, "deleteContents"),
    Method("tables.insert", table_handlers.insert_table, fields=_TABLE_FIELDS),
    Method("tables.list", table_handlers.list_tables, _PAGE),
    Method("tables.get", table_handlers.get_table, "view"),
    Method("tables.patch", table_handlers.patch_table, fields=_TABLE_FIELDS),
    Method("tables.delete", table_handlers.delete_table),
    Method("tables.testIamPermissions", table_handlers.test_table_permissions, fields="permissions"),
    Method("tabledata.list", query_handlers.list_rows, _PAGE + _FORMAT + "selectedFields startIndex"),
    Method("rowAccessPolicies.list", table_handlers.list_policies, "pageSize pageToken"),
    Method("rowAccessPolicies.getIamPolicy", table_handlers.get_iam_policy, fields="options.requestedPolicyVersion"),
    Method("rowAccessPolicies.testIamPermissions", table_handlers.test_policy_permissions, fields="permissions"),
    Method("jobs.insert", job_handlers.insert_job, fields=_INSERTED_JOB_FIELDS),
    Method(
        "jobs.list",
        job_handlers.list_jobs,
        _PAGE + "allUsers minCreationTime parentJobId projection stateFilter",
    ),
    Method("jobs.get", job_handlers.get_job, "location projection"),  # the Python client sends projection
    Method("jobs.cancel", job_handlers.cancel_job, "location projection"),
    Method(
        "jobs.query",
        query_handlers.run_query,
        fields=_COMMON_QUERY_FIELDS
        + _FORMAT
        + "labels.* location maxResults timeoutMs requestId kind jobCreationMode jobTimeoutMs",
    ),
    Method("jobs.getQueryResults", query_handlers.get_query_results, _PAGE + _FORMAT + "location startIndex timeoutMs"),
)
