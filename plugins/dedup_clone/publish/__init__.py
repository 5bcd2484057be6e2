"""The publish protocol, one module a step: heal, resolve, load, check, swap, commit, prune. Knows no Airflow."""
