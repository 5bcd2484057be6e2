"""The only package that imports Airflow (apart from the page's entrance): operators, triggers and DAG builders."""
