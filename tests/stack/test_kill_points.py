"""The short form of the long runs: three points of the kill matrix, twelve markers at once, six after an outage."""

from __future__ import annotations

from dataclasses import replace

import pytest

from soak import markers, points
from soak.deliveries import Deliveries
from soak.kill import KillMatrix
from soak.stack import BY_SPARK, SoakStack

pytestmark = [pytest.mark.stack, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def matrix(gated_stack: SoakStack) -> KillMatrix:
    return KillMatrix(gated_stack, print, Deliveries(gated_stack.landing))


@pytest.mark.parametrize("name", ["dedup.writing:spark_jvm", "swap.committed:task", "commit.current:fake_gcs"])
def test_a_publish_ends_well_though_a_process_is_killed(matrix: KillMatrix, name: str) -> None:
    (point,) = points.choose(name)
    result = matrix.run(replace(point, feed=BY_SPARK))  # a feed of its own: the other tests count their runs
    assert result.problems == (), result


def test_twelve_markers_at_once_give_twelve_runs_and_one_swap(gated_stack: SoakStack, matrix: KillMatrix) -> None:
    section = markers.run(gated_stack, matrix.deliveries, BY_SPARK, airflow_is_down=False)
    assert section.problems == (), section


def test_six_that_land_while_airflow_is_stopped_are_folded_into_one_swap(
    gated_stack: SoakStack, matrix: KillMatrix
) -> None:
    section = markers.run(gated_stack, matrix.deliveries, BY_SPARK, airflow_is_down=True, markers=6)
    assert section.problems == (), section
