"""dedup-clone: keeps a BigQuery table fresh, unique and always available from complete snapshots.

The rooms, from the inside out: `contract` (what the parts tell each other; standard library only), `settings`
(what people write), `state` (what is kept in the state bucket), `warehouse` (BigQuery), `checks`, `publish` (the
protocol's steps), `orchestration` (the only room that knows Airflow).
"""

__version__ = "0.1.0"
