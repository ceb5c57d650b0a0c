"""A broken CUDA context ends with the worker that has it: the worker is replaced, and the work is done again."""

import pytest
from helpers import kernel_with_cupy, wait_until

pytestmark = pytest.mark.cluster

FUNCTIONS = """
import cupy
from pathlib import Path
def breaks(block):
    cupy.cuda.break_context()
    return block
def breaks_once(block, marker):
    if not Path(marker).exists():
        Path(marker).touch()
        cupy.cuda.break_context()
    return block
def breaks_later(block, marker):
    try:
        return breaks_once(block, marker)
    except RuntimeError:  # as of a kernel that CUDA has not executed yet
        return block
def reasons():
    magics = get_ipython().magics_manager.registry["GpuDaskMagics"]
    return [each.reason for each in magics.session.cluster.state().worker_exits]
"""
WORDS = "cudaErrorIllegalAddress: an illegal memory access was encountered"


@pytest.fixture(scope="module")
def kernel():
    with kernel_with_cupy(1) as kernel:
        kernel.ok(FUNCTIONS)
        yield kernel


def pid_of_worker(kernel):
    return kernel.ok(
        "import os\nclient.wait_for_workers(1, timeout=60)\n(pid,) = client.run(os.getpid).values()\npid"
    ).value


def test_a_function_that_breaks_it_three_times_in_a_row_is_refused_with_its_line(kernel):
    before = pid_of_worker(kernel)
    reply = kernel.run("%%gpudask\nda.ones(10, chunks=5).map_blocks(breaks, dtype=float).sum().compute()")
    assert reply.error == "BrokenContextError"
    assert reply.error_value.startswith(f"breaks (line 4) broke the CUDA context of its worker 3 times: {WORDS}.")
    assert kernel.ok("%%gpudask\nfloat(da.ones(10, chunks=5).sum().compute())").value == "10.0"
    assert pid_of_worker(kernel) != before
    assert eval(kernel.ok("reasons()[-3:]").value) == [f"lost its CUDA context in breaks (line 4): {WORDS}"] * 3  # noqa: S307
    found = kernel.ok(
        "examined = %gpudask doctor\n[each.text for each in examined.findings if each.subject == 'exits']"
    ).value
    assert "workers were replaced" in found


@pytest.mark.parametrize("function", ["breaks_once", "breaks_later"])
def test_what_the_worker_held_is_computed_again(kernel, tmp_path, function):
    kernel.ok("%%gpudask\nkept = da.arange(10, chunks=5).persist()\nkept.sum().compute()")
    before = pid_of_worker(kernel)
    kernel.ok(f"marker = {str(tmp_path / 'marker')!r}")
    mapped = f"da.ones(10, chunks=5).map_blocks({function}, marker, dtype=float)"
    assert kernel.ok(f"%%gpudask\nfloat((kept + {mapped}).sum().compute())").value == "55.0"
    wait_until(lambda: pid_of_worker(kernel) != before, 60)
    assert kernel.ok("%%gpudask\nfloat(kept.sum().compute())").value == "45.0"


def test_a_kernel_whose_own_context_is_broken_says_so_and_computes_on_the_cpu(kernel):
    kernel.ok("kept = 3")
    reply = kernel.run("%%gpudask\ncupy.cuda.break_context()")
    assert reply.error == "CUDARuntimeError"
    assert "The CUDA context of this kernel is broken" in "".join(reply.displayed) + reply.printed
    assert "does not support everything" not in "".join(reply.displayed) + reply.printed
    reply = kernel.run("%%gpudask\nda.ones(3).sum().compute()")
    assert f"The CUDA context of this kernel is broken: {WORDS}." in reply.error_value
    assert (
        kernel.ok("%%gpudask --array numpy --dataframe pandas\nkept * float(da.ones(3).sum().compute())").value == "9.0"
    )
    found = kernel.ok(
        "examined = %gpudask doctor\n[each.text for each in examined.findings if each.verdict == 'problem']"
    ).value
    assert "The CUDA context of this kernel is broken" in found
