"""Spark settings of the local stack."""

from __future__ import annotations

from pathlib import Path

import pytest

from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.orchestration.runners.local_spark_conf import emulator_spark_conf, event_log_conf, local_spark_conf


def test_emulator_settings_name_its_address_and_a_connector_that_exists() -> None:
    conf = emulator_spark_conf("http://127.0.0.1:4443")
    assert conf["spark.hadoop.fs.gs.storage.root.url"] == "http://127.0.0.1:4443/"
    assert Path(conf["spark.executor.extraClassPath"]).is_file()


@pytest.mark.parametrize("host", ["", "127.0.0.1:4443", "http://"])
def test_address_without_scheme_or_host_is_refused(host: str) -> None:
    with pytest.raises(ConfigurationError, match="STORAGE_EMULATOR_HOST"):
        emulator_spark_conf(host)


def test_event_logs_are_written_where_the_environment_names_a_folder() -> None:
    assert event_log_conf("") == {}
    assert event_log_conf("file:///events")["spark.eventLog.dir"] == "file:///events"


def test_local_spark_listens_on_this_machine_only() -> None:
    conf = local_spark_conf()
    assert conf["spark.driver.bindAddress"] == conf["spark.driver.host"] == "127.0.0.1"
