"""Says what the stand-in carries out, mostly from the constants that the code itself uses.

`python -m bigquery_standin.reference` prints it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from bigquery_standin.faults import JOB_EFFECTS, REQUEST_EFFECTS
from bigquery_standin.jobs.dml_commit import MAXIMUM_RETRIES
from bigquery_standin.jobs.external_tables import DEFINITION_FIELDS, EXTERNAL_FORMATS
from bigquery_standin.jobs.extract_job import MAXIMUM_FILE_BYTES
from bigquery_standin.jobs.information_schema import VIEWS
from bigquery_standin.jobs.job_configuration import (
    CREATE_DISPOSITIONS,
    EXTRACT_COMPRESSIONS,
    EXTRACT_FORMATS,
    FILE_SET_SPECS,
    SOURCE_FORMATS,
    WRITE_DISPOSITIONS,
)
from bigquery_standin.jobs.object_store import MAXIMUM_URIS
from bigquery_standin.rest.google_api import ONLY_VALUES
from bigquery_standin.sql import statements
from bigquery_standin.sql.ddl_options import PROCEDURE_OPTIONS, TABLE_OPTIONS
from bigquery_standin.sql.table_names import REGIONAL_VIEWS
from bigquery_standin.sql.value_generator import FILE_NAME
from bigquery_standin.storage.table_rules import MAXIMUM_CLONES

STATEMENTS: dict[type, str] = {
    statements.Query: "`SELECT`, `WITH … SELECT`, set operations, `QUALIFY`, windows, `FOR SYSTEM_TIME AS OF`",
    statements.Insert: "`INSERT [INTO] table [(columns)] VALUES … | query`",
    statements.Mutation: "`UPDATE … SET … WHERE …`, `DELETE [FROM] … WHERE …`, "
    "`MERGE [INTO] … USING table | (query) ON … WHEN [NOT] MATCHED [BY TARGET | BY SOURCE] [AND …] THEN …`",
    statements.TruncateTable: "`TRUNCATE TABLE`",
    statements.CreateTable: "`CREATE [OR REPLACE] TABLE [IF NOT EXISTS] … [(…, PRIMARY KEY (…) NOT ENFORCED)] "
    "[PARTITION BY day] [CLUSTER BY …] [OPTIONS] [AS query]`, "
    "`CREATE [OR REPLACE] VIEW [IF NOT EXISTS] … [OPTIONS] AS query` (read by SELECT statements only)",
    statements.CreateClone: "`CREATE [OR REPLACE] TABLE … CLONE … [FOR SYSTEM_TIME AS OF …] [OPTIONS]`",
    statements.AlterTableSetOptions: "`ALTER TABLE [IF EXISTS] … SET OPTIONS`",
    statements.AlterColumn: "`ALTER TABLE [IF EXISTS] … ALTER COLUMN [IF EXISTS] … SET DATA TYPE …`",
    statements.DropTable: "`DROP TABLE [IF EXISTS]`",
    statements.CreateRowPolicy: "`CREATE ROW ACCESS POLICY … ON … [GRANT TO (…)] FILTER USING (…)`",
    statements.DropRowPolicies: "`DROP ALL ROW ACCESS POLICIES ON …`",
    statements.UndropSchema: "`UNDROP SCHEMA … [OPTIONS (location = …)]`",
    statements.CreateProcedure: "`CREATE [OR REPLACE] PROCEDURE [IF NOT EXISTS] …(…) WITH CONNECTION … "
    "OPTIONS (engine = 'SPARK', …) LANGUAGE PYTHON [AS code]`",
    statements.DropProcedure: "`DROP PROCEDURE [IF EXISTS]`",
    statements.Call: "`CALL` of such a procedure",
    statements.Declare: "`DECLARE name, … type [DEFAULT …]` with a scalar type",
    statements.If: "`IF … ELSEIF … ELSE … END IF`",
    statements.Assert: "`ASSERT … [AS …]`",
}


def render() -> str:
    """The reference, in Markdown."""
    parts = [
        "## REST methods and functions\n",
        "Methods with their parameters and request fields: `METHODS` in `bigquery_standin/rest/supported_methods.py`; "
        "functions: `SUPPORTED_FUNCTIONS` in `bigquery_standin/sql/function_generator.py`. "
        "Only these values of fields: "
        + "; ".join(f"`{path}`: {_codes(sorted(map(str, values)))}" for path, values in ONLY_VALUES.items())
        + ".",
        "\n## Load jobs\n",
        f"Formats {_codes(SOURCE_FORMATS)}; write {_codes(WRITE_DISPOSITIONS)}; create "
        f"{_codes(CREATE_DISPOSITIONS)}; file sets {_codes(FILE_SET_SPECS)}; at most {MAXIMUM_URIS:,} URIs.",
        "\n## External tables of a query job\n",
        f"Formats {_codes(EXTERNAL_FORMATS)}; fields {_codes(DEFINITION_FIELDS)}; file sets "
        f"{_codes(FILE_SET_SPECS)}; at most {MAXIMUM_URIS:,} URIs; pseudo column `{FILE_NAME}`.",
        "\n## Extract jobs\n",
        f"Formats {_codes(EXTRACT_FORMATS)}; compression {_codes(EXTRACT_COMPRESSIONS)}; one URI, with at most one "
        f"`*`; at most {MAXIMUM_FILE_BYTES:,} bytes without `*`.",
        "\n## Statements\n",
        *(f"- {text}" for text in STATEMENTS.values()),
        "",
        f"Table options: {_codes(TABLE_OPTIONS)}. Procedure options: {_codes(PROCEDURE_OPTIONS)}.",
        "\n## INFORMATION_SCHEMA\n",
        f"Of a dataset: {_codes(VIEWS)}. Of a region: {_codes(REGIONAL_VIEWS)}.",
        "\n## Limits\n",
        "As docs/bigquery-rules.md says; `--help` names options for others. A base table has at most "
        f"{MAXIMUM_CLONES:,} clones. DML that finds its partitions changed is tried {MAXIMUM_RETRIES} times more.",
        "\n## Fault effects\n",
        f"Requests: {_codes(REQUEST_EFFECTS)}. Jobs: {_codes(JOB_EFFECTS)}.",
    ]
    return "\n".join(parts) + "\n"


def _codes(names: Iterable[object]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    sys.stdout.write(render())
