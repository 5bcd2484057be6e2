"""dbt's own tests of adapters, for dbt-bigquery on the stand-in: pytest runs this file in `.venv-foreign`."""

import os

import pytest
from dbt.tests.adapter.basic.test_adapter_methods import BaseAdapterMethod
from dbt.tests.adapter.basic.test_base import BaseSimpleMaterializations
from dbt.tests.adapter.basic.test_empty import BaseEmpty
from dbt.tests.adapter.basic.test_ephemeral import BaseEphemeral
from dbt.tests.adapter.basic.test_generic_tests import BaseGenericTests
from dbt.tests.adapter.basic.test_incremental import (
    BaseIncremental,
    BaseIncrementalNotSchemaChange,
)
from dbt.tests.adapter.basic.test_singular_tests import BaseSingularTests
from dbt.tests.adapter.basic.test_singular_tests_ephemeral import BaseSingularTestsEphemeral
from dbt.tests.adapter.basic.test_snapshot_check_cols import BaseSnapshotCheckCols
from dbt.tests.adapter.basic.test_snapshot_timestamp import BaseSnapshotTimestamp
from dbt.tests.adapter.basic.test_table_materialization import BaseTableMaterialization
from dbt.tests.adapter.basic.test_validate_connection import BaseValidateConnection
from dbt.tests.adapter.dbt_clone.test_dbt_clone import BaseClonePossible
from dbt.tests.adapter.hooks.test_run_hooks import BaseAfterRunHooks
from dbt.tests.adapter.incremental.test_incremental_merge_exclude_columns import BaseMergeExcludeColumns
from dbt.tests.adapter.incremental.test_incremental_on_schema_change import BaseIncrementalOnSchemaChange


@pytest.fixture(scope="class")
def dbt_profile_target():
    return {
        "type": "bigquery",
        "method": "oauth-secrets",
        "token": "foreign@example.com",
        "project": "local-dev",
        "location": "US",
        "threads": 2,
        "job_retries": 0,
        "job_execution_timeout_seconds": 120,
        "api_endpoint": os.environ["BIGQUERY_EMULATOR_HOST"],
    }


BASES = [
    BaseAdapterMethod,
    BaseAfterRunHooks,
    BaseClonePossible,
    BaseEmpty,
    BaseEphemeral,
    BaseGenericTests,
    BaseIncremental,
    BaseIncrementalNotSchemaChange,
    BaseIncrementalOnSchemaChange,
    BaseMergeExcludeColumns,
    BaseSimpleMaterializations,
    BaseSingularTests,
    BaseSingularTestsEphemeral,
    BaseSnapshotCheckCols,
    BaseSnapshotTimestamp,
    BaseTableMaterialization,
    BaseValidateConnection,
]
# pytest collects classes whose name begins with Test.
globals().update({f"Test{base.__name__[4:]}": type(f"Test{base.__name__[4:]}", (base,), {}) for base in BASES})
