"""Each rule of the advice holds where it should, and not where it should not."""

import pytest

from jupyter_gpudask.profiling.advice import advice
from jupyter_gpudask.profiling.measurements import CellMeasurements, Operation, WorkerUse

# As on the CPU stand-in: da.ones((2500, 10), chunks=(1, 10)).sum().
TINY = Operation(tasks=2500, sized=2500, nbytes=200_000, seconds=0.2, is_source=True)


def profile(*, on_gpus=True, duration=10.0, active=10.0, busy=(9.0, 9.0), transferred=0, moved=(), **operations):
    workers = tuple(
        WorkerUse(f"GPU {number}", seconds=seconds, gpu_seconds=seconds * on_gpus)
        for number, seconds in enumerate(busy)
    )
    return CellMeasurements(duration, active, operations, workers, on_gpus, transferred, moved=moved)


def computed(seconds=10.0, **more):
    return Operation(
        **{"tasks": 1000, "sized": 1000, "nbytes": 1000 * 2**26, "seconds": seconds, "gpu_seconds": seconds} | more
    )


HOLDS = {
    "small blocks": (
        profile(ones=TINY),
        'ones: 2,500 blocks of 80 B; chunks="auto" would make 1, with less work for Dask.',
    ),
    "short tasks": (
        profile(train=Operation(tasks=2000, seconds=2, gpu_seconds=2, waiting=8)),
        (
            "train: 2,000 tasks of 1 ms each, for which the workers waited 8.0 s: larger chunks or partitions "
            "make fewer tasks."
        ),
    ),
    "moved from the host": (
        profile(x=computed(5.7), to_cupy=computed(4.3, to_gpu_seconds=4.3)),
        (
            "43 % of the time in tasks went into moving blocks from the host to the GPUs, most of it in "
            "to_cupy: create the collection in the cell, or keep it on the GPUs with persist()."
        ),
    ),
    "moved by --move": (
        profile(sum=computed(5.7), to_cupy=computed(4.3, to_gpu_seconds=4.3), moved=("x",)),
        "43 % of the time in tasks went into moving x to the GPUs by --move: create it in the cell.",
    ),
    "moved by --move all": (
        profile(sum=computed(5.7), to_cupy=computed(4.3, to_gpu_seconds=4.3), moved=("all",)),
        (
            "43 % of the time in tasks went into moving the collections on the host to the GPUs by --move: create them "
            "in the cell."
        ),
    ),
    "moved to the host": (
        profile(x=computed(7), to_numpy=computed(3, to_host_seconds=3)),
        (
            "30 % of the time in tasks went into moving blocks from the GPUs to the host, most of it in "
            "to_numpy: reduce the result before it is converted."
        ),
    ),
    "between workers": (
        profile(x=computed(6), rechunk=computed(0, between_workers=4), transferred=3 * 2**30),
        (
            "40 % of the time went into moving 3.0 GiB between workers, most of it for rechunk: chunks along "
            "the axis of the operation avoid that, and --protocol ucx uses NVLink."
        ),
    ),
    "spilling": (
        profile(x=computed(8, spilling=2)),
        (
            "20 % of the time went into spilling, because results do not fit in memory: persist less, delete "
            "what is not needed, or use smaller chunks."
        ),
    ),
    "few blocks": (
        profile(busy=(10, 4), x=computed(14, tasks=3)),
        "GPU 1 idled 60 %: 3 blocks of x for 2 GPUs. Use smaller chunks.",
    ),
    "uneven": (
        profile(busy=(10, 4), x=computed(14)),
        "GPU 1 idled 60 %, and another worker 0 %: the work is not spread evenly.",
    ),
    "work of the CPU": (
        profile(read_csv=computed(9, gpu_seconds=0.5)),
        (
            "read_csv took 9.0 s, of which the GPUs computed 0.5 s: the rest is work of the CPU, such as "
            "reading files, compiling, and functions that do not use the GPU."
        ),
    ),
    "work of the kernel": (
        profile(active=2, busy=(2, 2), x=computed(4)),
        (
            "The cluster had no tasks for 80 % of the cell: code in the kernel, such as loops, building "
            "collections and converting results, took that time."
        ),
    ),
}

NOTHING_TO_SAY = {
    "large blocks that are computed at once": profile(x=computed()),
    "few small blocks": profile(
        ones=Operation(tasks=20, sized=20, nbytes=160, seconds=1, gpu_seconds=1, is_source=True)
    ),
    "small results of large blocks": profile(x=computed(), sum=Operation(tasks=1000, sized=1000, nbytes=8000)),
    "short tasks that are not waited for": profile(x=computed(2, tasks=2000, waiting=1)),
    "a little moving": profile(x=computed(10, to_gpu_seconds=1, to_host_seconds=1, between_workers=1, spilling=0.5)),
    "moving a little between workers": profile(x=computed(6, between_workers=4), transferred=2**20),
    "one idle GPU that is alone": profile(busy=(3,), x=computed(3)),
    "GPUs that idle alike": profile(busy=(3, 3), x=computed(6)),
    "the CPU stand-in": profile(on_gpus=False, x=computed(18, gpu_seconds=0)),
    "a short cell": profile(duration=1, active=0.1, busy=(0.1, 0.1), x=computed(0.2)),
    "nothing that ran": profile(active=9, busy=(0, 0)),
}


@pytest.mark.parametrize(("measured", "sentence"), HOLDS.values(), ids=HOLDS)
def test_a_rule_says_one_sentence(measured, sentence):
    assert advice(measured) == [sentence]


@pytest.mark.parametrize("measured", NOTHING_TO_SAY.values(), ids=NOTHING_TO_SAY)
def test_no_rule_holds(measured):
    assert advice(measured) == []
