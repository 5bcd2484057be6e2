"""Is what readers see as fresh as promised, and if not, who is told? Judgements are pure; no Airflow in here."""
