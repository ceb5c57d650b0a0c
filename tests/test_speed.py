"""The rows of benchmarks/speed.py: which run, what is reported of them, and that runs do not share GPUs or folders."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import speed
from harness import BY_HAND, NO_DASK, OURS, chosen, private_environment
from workloads import ROWS, Seconds
from workloads.arrays import SEED_CELL

CLUSTERS = {"whole", "little memory"}


def test_each_row_has_the_two_sides_on_a_cluster_or_starts_what_it_needs():
    for row in ROWS.values():
        assert row.cluster is None or {BY_HAND, OURS} <= set(row.sides), row.name
        assert row.cluster is None or row.cluster in CLUSTERS, row.name
    assert NO_DASK in ROWS[SEED_CELL].sides


def test_rows_are_selected_by_parts_of_their_names():
    assert chosen(ROWS, "SVD;Parquet: sort") == ["SVD", "Parquet: sort"]
    assert chosen(ROWS, "mean") == ["mean"]
    assert chosen(ROWS, "") == list(ROWS)
    with pytest.raises(SystemExit, match="'SDV' names no row"):
        chosen(ROWS, "SDV")


def test_rows_of_one_cluster_share_a_process_and_a_row_that_starts_its_own_has_one_alone():
    for group in speed.groups(list(ROWS.values())):
        assert len({row.cluster for row in group}) == 1
        assert group[0].cluster is not None or len(group) == 1
    assert len(speed.groups(list(ROWS.values()))) == len(CLUSTERS) + sum(row.cluster is None for row in ROWS.values())


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


def test_a_run_uses_the_first_of_the_visible_gpus_and_folders_of_its_own(tmp_path, monkeypatch):
    def gpus(count):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        variables = private_environment(folder, count)
        for name in ("TMPDIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "SPEED_DATA"):
            assert Path(variables[name]).parent == folder
        return variables.get("CUDA_VISIBLE_DEVICES")

    for name in ("CUDA_VISIBLE_DEVICES", "SPEED_DATA"):
        monkeypatch.delenv(name, raising=False)
    assert gpus(None) is None
    assert gpus(2) == "0,1"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,3")
    assert gpus(None) is None
    assert gpus(1) == "5"
    with pytest.raises(SystemExit, match=r"--gpus 3: CUDA_VISIBLE_DEVICES is 5,3\. Use at most 2\."):
        gpus(3)
