"""The rows of benchmarks/speed.py: which run, what is reported of them, and that runs do not share GPUs or folders."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import speed
from harness import BY_HAND, NO_DASK, OURS
from workloads import ROWS, Seconds
from workloads.arrays import SEED_CELL

CLUSTERS = {"whole", "little memory"}


def test_each_row_has_the_two_sides_on_a_cluster_or_starts_what_it_needs():
    for row in ROWS.values():
        assert row.cluster is None or {BY_HAND, OURS} <= set(row.sides), row.name
        assert row.cluster is None or row.cluster in CLUSTERS, row.name
    assert NO_DASK in ROWS[SEED_CELL].sides


def test_the_first_run_is_left_out_and_a_failed_side_has_no_time():
    found = speed.summary({BY_HAND: [9.0, 4.0, 6.0, 5.0], OURS: [9.0, 2.0, 2.5, 3.0]})
    assert found["seconds"] == {BY_HAND: 5.0, OURS: 2.5}
    assert found["ratio"] == 2.0
    failed = speed.summary({BY_HAND: [1.0, 1.0], OURS: "ValueError: no"})
    assert failed["seconds"] == {BY_HAND: 1.0}
    assert "ratio" not in failed


def test_work_that_measures_a_part_of_itself_decides_what_counts():
    assert speed.run_once(lambda _: Seconds(42.0), large=False) == 42.0
    assert speed.run_once(lambda _: 42.0, large=False) < 42
