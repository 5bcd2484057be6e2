"""A short form of the soak: one or two points of the kill matrix, and several markers that land at once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from soak import kill_points, marker_burst
from soak.delivery_producer import DeliveryProducer
from soak.kill_matrix import KillMatrix
from testkit.proxied_stack import BY_SPARK, ProxiedStack
from tests.thoroughness import times

pytestmark = [pytest.mark.stack, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def matrix(proxied_stack: ProxiedStack) -> KillMatrix:
    return KillMatrix(proxied_stack, DeliveryProducer(proxied_stack.landing))


@pytest.mark.parametrize(
    "name", ["swap.committed:task", pytest.param("dedup.writing:spark_jvm", marks=pytest.mark.exhaustive)]
)
def test_a_publish_ends_well_though_a_process_is_killed(matrix: KillMatrix, name: str) -> None:
    (point,) = kill_points.select_points(name)
    result = matrix.run(replace(point, feed=BY_SPARK))  # other tests count the runs of the worked example
    assert result.problems == (), result


@pytest.mark.exhaustive
def test_markers_that_land_while_airflow_is_stopped_give_a_run_each_and_one_swap(
    proxied_stack: ProxiedStack, matrix: KillMatrix
) -> None:
    section = marker_burst.run(
        proxied_stack, matrix.deliveries, BY_SPARK, is_airflow_down=True, marker_count=times(3, 6)
    )
    assert section.problems == (), section
