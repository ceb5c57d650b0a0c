"""benchmarks/eight.py: which steps it plans, what it keeps of a step that fails, and what it concludes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import dask
import dask.array as da
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from eight import Report, follow, run_step
from eight_gpus import witness
from eight_gpus.plan import make_plan, repeats
from eight_gpus.step import MARK
from eight_gpus.summary import summarize
from eight_gpus.works import SMALL, WORKS, Sizes

from jupyter_gpudask.protocol import GpuProcess, GpuState

H200, LARGE = 150_000_000_000, Sizes().large_join_bytes


@pytest.mark.parametrize(
    ("gpus", "names"),
    [
        (1, ["by hand 1", "unix 1", "notebooks 1"]),
        (2, ["by hand 2", "unix 2", "unix 1", "ucx 2", "tcp 2", "tls 2", "notebooks 2", "ucx without pool 2"]),
        (
            8,
            "by hand 8;unix 8;unix 1;unix 2;unix 4;ucx 8;tcp 8;tls 8;notebooks 8;ucx 4;tcp 4;ucx 2;tcp 2;"
            "ucx without pool 8".split(";"),
        ),
    ],
)
def test_the_plan_begins_with_all_gpus(gpus, names):
    plan = make_plan(gpus, H200, LARGE)
    assert [step.name for step in plan] == names
    assert {work for step in plan for work in step.works} <= set(WORKS)


def test_the_headline_and_the_scaling_with_tls_fit_into_the_default_time():
    assert sum(step.seconds for step in make_plan(8, H200, LARGE)[:6]) < 420


def test_a_join_that_does_not_fit_into_device_memory_is_left_out_with_the_reason():
    one, two = (
        next(step for step in make_plan(count, H200, LARGE) if step.name == f"unix {count}") for count in (2, 8)
    )
    assert "large join" not in one.works
    assert "2 GPUs hold 240 GB" in one.left_out["large join"]
    assert "large join" in two.works
    assert not two.left_out


@pytest.mark.parametrize(
    ("work", "runs", "again"),
    [
        ("cell", [1.0], True),
        ("cell", [1.0, 1.0, 1.0], False),
        ("cell", [11.0], False),
        ("SVD", [5.0], False),
        ("large join", [0.1], False),
    ],
)
def test_a_long_computation_is_not_repeated(work, runs, again):
    assert repeats(work, runs) == again


@pytest.mark.parametrize("name", sorted(WORKS.keys() - {"verbatim"}))  # which names CuPy
def test_each_computation_accepts_the_right_result(name):
    with dask.config.set(scheduler="threads"):
        WORKS[name](SMALL)


def test_a_wrong_sum_is_refused(monkeypatch):
    monkeypatch.setattr(da.random, "normal", lambda *_, size, chunks: da.zeros(size, chunks=chunks))
    with pytest.raises(AssertionError, match="the sum of 1000000 numbers is 1000000"):
        WORKS["cell"](SMALL)


def steps(**seconds):
    """Results of steps, by name with _ for a space."""
    return {name.replace("_", " "): {"start": 2.0, "works": {"join": {"seconds": s}}} for name, s in seconds.items()}


def test_efficiency_is_that_of_one_gpu_over_the_number_and_the_time():
    summary = summarize(steps(unix_1=8.0, unix_4=2.5, ucx_4=2.0), 4)
    assert summary["efficiency"] == {"join": {"unix": {"4": 0.8}, "ucx": {"4": 1.0}}}
    assert summary["transports"] == {"join": {"4": {"unix over ucx": 1.25}}}


def test_steps_that_are_missing_or_left_out_are_not_in_the_summary():
    assert summarize(steps(tcp_2=3.0) | {"tls 2": {"left_out": "no time"}}, 2) == {
        "beside_by_hand": {},
        "efficiency": {},
        "transports": {},
    }


def test_results_are_in_the_file_before_a_step_has_failed(tmp_path):
    out = tmp_path / "report.json"
    found = {"work": "cell", "seconds": 1.5}
    code = f"print({MARK!r} + {json.dumps(json.dumps(found))}); print('noise'); raise SystemExit('no more')"
    report = Report(out, 2)
    entry = report.begin("tls 2", {"works": {}})
    run_step("tls 2", [sys.executable, "-c", code], os.environ, 100, report)
    written = json.loads(out.read_text())["steps"]["tls 2"]
    assert written["works"] == {"cell": {"seconds": 1.5}}
    assert entry["error"] == "no more"
    assert "noise" in entry["log"]


def test_a_step_that_takes_too_long_is_killed(tmp_path):
    report = Report(tmp_path / "report.json", 2)
    entry = report.begin("tls 2", {"works": {}})
    run_step("tls 2", ["sleep", "1000"], os.environ, 0, report)
    assert entry["error"] == "killed after 0 s"


def test_what_a_step_wrote_before_it_is_killed_is_read(tmp_path):
    log = tmp_path / "log"
    log.write_text("one\ntwo\nhal")
    with subprocess.Popen(["sleep", "1000"]) as process:
        assert list(follow(log, process, time.monotonic())) == ["one", "two"]
        process.kill()


def test_a_second_run_keeps_the_other_steps_and_refuses_the_file_of_other_gpus(tmp_path):
    out = tmp_path / "report.json"
    first = Report(out, 2)
    first.begin("by hand 2", {"start": 3.0})
    first.write()
    assert Report(out, 2).steps == {"by hand 2": {"start": 3.0}}
    with pytest.raises(SystemExit, match="has results of 2 of the GPUs"):
        Report(out, 4)


def gpu(*, memory, pids):
    processes = tuple(GpuProcess(pid=pid, memory=None) for pid in pids)
    return GpuState(index=0, uuid="GPU-1", name="NVIDIA H200", memory_used=memory, processes=processes)


def test_the_witness_names_and_kills_processes_of_the_step_that_are_left(monkeypatch):
    monkeypatch.setattr(witness, "list_gpus", list)
    monkeypatch.setattr(witness, "LIMIT", 0)
    marked, other = os.environ | {witness.VARIABLE: "this"}, os.environ | {witness.VARIABLE: "other"}
    with subprocess.Popen(["sleep", "1000"], env=marked) as left, subprocess.Popen(["sleep", "999"], env=other) as kept:
        seen = witness.Witness().look("this")
        assert left.wait(30) == -signal.SIGKILL
        assert kept.poll() is None
        kept.kill()
    assert (seen["nothing_left"], seen["processes"]) == (False, [f"{left.pid}: sleep 1000"])


@pytest.mark.parametrize(
    ("after", "left"),
    [
        ({"memory": 10**9 + 10**6, "pids": [1]}, {}),
        ({"memory": 10**9, "pids": [1, 2]}, {"contexts": [2]}),
        ({"memory": 2 * 10**9, "pids": [1]}, {"more_memory": [10**9]}),
    ],
)
def test_the_witness_compares_contexts_and_device_memory_with_the_beginning(monkeypatch, after, left):
    state = {"memory": 10**9, "pids": [1]}
    monkeypatch.setattr(witness, "list_gpus", lambda: [gpu(**state)])
    monkeypatch.setattr(witness, "LIMIT", 0)
    watching = witness.Witness()
    state |= after
    seen = watching.look("none")
    del seen["seconds"]
    assert seen == {"nothing_left": not left, "memory_used": [after["memory"]], **left}
