"""From rows, dates and bytes to executors and minutes; Spark's settings on the local stack."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup_clone.contract.attempt import Plan
from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.orchestration.runners.local_spark_conf import emulator_spark_conf, local_spark_conf
from dedup_clone.orchestration.runners.sizing import Workload, describe_size, size_run, spark_properties, vcpu_seconds
from dedup_clone.settings.spark_settings import SparkSize

TERABYTE = 10**12
REFERENCE_ROWS = 312_500_000_000
PLANS = (Plan.ADOPT, Plan.REWRITE, Plan.WINDOW)


def work(
    rows: int, *, dates: int = 730, size: int = 15 * TERABYTE, deliveries: int = 1, plan: Plan = Plan.ADOPT
) -> Workload:
    return Workload(deliveries, size, rows, rows * (deliveries - 1), rows, dates, plan)


def test_the_reference_table_is_adopted_within_the_hour() -> None:
    size = size_run(work(REFERENCE_ROWS), SparkSize())
    assert (size.executors, size.cores) == (71, 284)
    assert 15 < size.expected_minutes <= 20
    assert "LATER" not in describe_size(size, work(REFERENCE_ROWS), SparkSize())


def test_rewriting_it_needs_more_than_the_usual_bound_and_says_so() -> None:
    rewritten = work(REFERENCE_ROWS, plan=Plan.REWRITE)
    size = size_run(rewritten, SparkSize())
    assert size.executors == 100
    assert "LATER than the target of 20" in describe_size(size, rewritten, SparkSize())


def test_an_older_delivery_is_sized_as_one_and_not_as_the_table() -> None:
    one, two, six = (vcpu_seconds(work(REFERENCE_ROWS, deliveries=count)) for count in (1, 2, 6))
    assert two - one == pytest.approx(REFERENCE_ROWS * 500e-9)
    assert six - one == pytest.approx(5 * (two - one))


def test_a_run_whose_dates_turn_out_to_be_rewritten_may_get_the_executors_for_it() -> None:
    spark, rows = SparkSize(max_executors=500), REFERENCE_ROWS // 10
    adopted, rewritten = (size_run(work(rows, plan=plan), spark) for plan in (Plan.ADOPT, Plan.REWRITE))
    assert adopted.executors < rewritten.executors == adopted.most_executors
    assert spark_properties(adopted, spark)["spark.dynamicAllocation.maxExecutors"] == str(rewritten.executors)


def test_a_small_snapshot_gets_the_smallest_run() -> None:
    size = size_run(work(104_000, dates=13, size=10**6), SparkSize())
    assert size.executors == 2
    assert size.expected_minutes == pytest.approx(1.5, abs=0.1)


def test_cores_without_a_task_are_not_requested() -> None:
    size = size_run(work(10**11, dates=2, size=8 * 2**30), SparkSize())
    assert size.cores == 8


@given(
    rows=st.integers(0, 10**13),
    dates=st.integers(1, 4000),
    size=st.integers(0, 10**14),
    target=st.integers(3, 600),
    bound=st.integers(2, 2000),
    gigabytes=st.integers(2, 7),
    plan=st.sampled_from(PLANS),
)
def test_bounds_hold_whatever_the_work(
    rows: int, dates: int, size: int, target: int, bound: int, gigabytes: int, plan: Plan
) -> None:
    wish = SparkSize(target_minutes=target, max_executors=bound, memory_gb_per_core=gigabytes)
    result = size_run(work(rows, dates=dates, size=size, plan=plan), wish)
    assert 2 <= result.executors <= bound
    properties = spark_properties(result, wish)
    low, first, high = (
        int(properties[f"spark.dynamicAllocation.{name}Executors"]) for name in ("min", "initial", "max")
    )
    assert 2 == low <= first <= high <= bound
    for role in ("executor", "driver"):
        memory = sum(int(properties[f"spark.{role}.{kind}"][:-1]) for kind in ("memory", "memoryOverhead"))
        assert 1024 <= memory / int(properties[f"spark.{role}.cores"]) <= 7424


def test_emulator_settings_name_its_address_and_a_connector_that_exists() -> None:
    conf = emulator_spark_conf("http://127.0.0.1:4443")
    assert conf["spark.hadoop.fs.gs.storage.root.url"] == "http://127.0.0.1:4443/"
    assert Path(conf["spark.executor.extraClassPath"]).is_file()


@pytest.mark.parametrize("host", ["", "127.0.0.1:4443", "http://"])
def test_address_without_scheme_or_host_is_refused(host: str) -> None:
    with pytest.raises(ConfigurationError, match="STORAGE_EMULATOR_HOST"):
        emulator_spark_conf(host)


def test_local_spark_listens_on_this_machine_only() -> None:
    conf = local_spark_conf()
    assert conf["spark.driver.bindAddress"] == conf["spark.driver.host"] == "127.0.0.1"
