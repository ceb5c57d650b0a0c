"""Each rule of the advice holds where it should, and not where it should not."""

import pytest

from jupyter_gpudask.profiling.measurements import CellMeasurements, Operation, WorkerUse, advice

# As on the CPU cluster: da.ones((2500, 10), chunks=(1, 10)).sum().
TINY = Operation(tasks=2500, sized=2500, nbytes=200_000, seconds=0.2, is_source=True)


def measured(*, on_gpus=True, duration=10.0, active=10.0, busy=(9.0, 9.0), transferred=0, moved=(), **operations):
    workers = tuple(
        WorkerUse(f"GPU {number}", seconds=seconds, gpu_seconds=seconds * on_gpus)
        for number, seconds in enumerate(busy)
    )
    return CellMeasurements(duration, active, operations, workers, on_gpus, transferred, moved=moved)


def computed(seconds=10.0, **more):
    return Operation(
        **{"tasks": 1000, "sized": 1000, "nbytes": 1000 * 2**26, "seconds": seconds, "gpu_seconds": seconds} | more
    )


MOVED = {"sum": computed(5.7), "to_cupy": computed(4.3, to_gpu_seconds=4.3)}
HOLDS = {
    'ones: 2,500 blocks of 80 B; chunks="auto" would make 1': measured(ones=TINY),
    "train: 2,000 tasks of 1 ms each, for which the workers waited 8.0 s": measured(
        train=Operation(tasks=2000, seconds=2, gpu_seconds=2, waiting=8)
    ),
    "43 % of the time in tasks went into moving blocks from the host to the GPUs, most of it in to_cupy": measured(
        **MOVED
    ),
    "43 % of the time in tasks went into moving x to the GPUs by --move: create it in": measured(**MOVED, moved=("x",)),
    "43 % of the time in tasks went into moving the collections on the host to the GPUs by --move": measured(
        **MOVED, moved=("all",)
    ),
    "30 % of the time in tasks went into moving blocks from the GPUs to the host, most of it in to_numpy": measured(
        x=computed(7), to_numpy=computed(3, to_host_seconds=3)
    ),
    "40 % of the time went into moving 3.0 GiB between workers, most of it for rechunk": measured(
        x=computed(6), rechunk=computed(0, between_workers=4), transferred=3 * 2**30
    ),
    "20 % of the time went into spilling": measured(x=computed(8, spilling=2)),
    "GPU 1 idled 60 %: 3 blocks of x for 2 GPUs. Use": measured(busy=(10, 4), x=computed(14, tasks=3)),
    "GPU 1 idled 60 %, and another worker 0 %: the work is": measured(busy=(10, 4), x=computed(14)),
    "read_csv took 9.0 s, of which the GPUs computed 0.5 s": measured(read_csv=computed(9, gpu_seconds=0.5)),
    "The cluster had no tasks for 80 % of the cell": measured(active=2, busy=(2, 2), x=computed(4)),
}

NOTHING_TO_SAY = {
    "large blocks that are computed at once": measured(x=computed()),
    "few small blocks": measured(
        ones=Operation(tasks=20, sized=20, nbytes=160, seconds=1, gpu_seconds=1, is_source=True)
    ),
    "small results of large blocks": measured(x=computed(), sum=Operation(tasks=1000, sized=1000, nbytes=8000)),
    "short tasks that are not waited for": measured(x=computed(2, tasks=2000, waiting=1)),
    "a little moving": measured(x=computed(10, to_gpu_seconds=1, to_host_seconds=1, between_workers=1, spilling=0.5)),
    "moving a little between workers": measured(x=computed(6, between_workers=4), transferred=2**20),
    "one idle GPU that is alone": measured(busy=(3,), x=computed(3)),
    "GPUs that idle alike": measured(busy=(3, 3), x=computed(6)),
    "the CPU cluster": measured(on_gpus=False, x=computed(18, gpu_seconds=0)),
    "a short cell": measured(duration=1, active=0.1, busy=(0.1, 0.1), x=computed(0.2)),
    "nothing that ran": measured(active=9, busy=(0, 0)),
}


@pytest.mark.parametrize(("sentence", "cell"), HOLDS.items())
def test_a_rule_says_one_sentence(sentence, cell):
    (said,) = advice(cell)
    assert said.startswith(sentence)


@pytest.mark.parametrize("cell", NOTHING_TO_SAY.values(), ids=NOTHING_TO_SAY)
def test_no_rule_holds(cell):
    assert advice(cell) == []
