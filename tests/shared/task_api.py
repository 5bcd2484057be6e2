"""The former place of the double that testkit.airflow holds."""

from testkit.airflow import TaskApi as TaskApi
from testkit.airflow import dag_run as dag_run
