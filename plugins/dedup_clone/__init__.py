"""dedup-clone: keeps a BigQuery table fresh, unique and always available from complete snapshots.

The packages, from the innermost outwards: `contract` (records that the parts exchange; standard library only),
`settings` (feed files and profiles), `state` (records in the state bucket), `warehouse` (BigQuery), `checks`, `publish`
(the steps of a publish), `engines`, `audit` and `freshness` beside each other, `page`, and `orchestration` (Airflow).
"""

__version__ = "1.0.0"
