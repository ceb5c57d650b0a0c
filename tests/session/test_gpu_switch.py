"""`jupyter_gpudask.gpu` in scripts, on real clusters: with pretend GPUs, and without any."""

import subprocess
import sys

import pytest
from helpers import fake_gpu_environment

pytestmark = pytest.mark.cluster

SCRIPT = """
import asyncio, os, sys, threading, time, traceback
import numpy as np
import dask.array as da, dask.config
import jupyter_gpudask

def kind():
    return type(da.ones(4, chunks=2).sum().compute()).__module__

if __name__ == "__main__":
"""


def run(body, **settings):
    script = SCRIPT + "".join(f"    {line}\n" for line in body.strip().splitlines())
    environment = fake_gpu_environment(cupy=True, **settings)
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1], done.stderr


# The parts of one script, on one cluster.
PARTS = {
    "switch": """
print(kind())
with jupyter_gpudask.gpu(results="gpu", dataframe="pandas", gpus=1) as client:
    print(kind(), len(client.nthreads()), client.submit(lambda: "IPython" in sys.modules).result())
    with jupyter_gpudask.gpu(dataframe="pandas", gpus=1, results="host") as again:
        print(kind(), again is client)
    print(kind())
print(kind())
print(sorted({name.partition(".")[0] for name in sys.modules} & {"IPython", "traitlets", "ipywidgets", "jedi"}))
try:
    with jupyter_gpudask.gpu(results="gpu", dataframe="pandas"):
        1 / 0
except ZeroDivisionError:
    print(kind(), dask.config.get("array.backend", "numpy"))
try:
    jupyter_gpudask.gpu(gpus=2).__enter__()
except jupyter_gpudask.errors.ClusterExistsError as error:
    print(error)
""",
    "decorator": """
switch = jupyter_gpudask.gpu(results="gpu", dataframe="pandas")
@switch
def decorated():
    return kind()
@switch
async def coroutine():
    await asyncio.sleep(0)
    return kind()
async def later():
    return kind()
print(decorated(), decorated(), asyncio.run(coroutine()), asyncio.run(switch(lambda: later())()), kind())
@switch
def returns_a_generator():
    return (kind() for _ in range(2))
try:
    returns_a_generator()
except TypeError as error:
    print(error)
""",
    "threads": """
entering = threading.Thread(target=switch.__enter__)
entering.start()
entering.join()
try:
    switch.__exit__(None, None, None)
except jupyter_gpudask.errors.SwitchThreadError as error:
    print(error)
print(kind())
first_in, second_in, first_out = threading.Event(), threading.Event(), threading.Event()
kinds = []
def first():
    with switch:
        first_in.set()
        second_in.wait(30)
    first_out.set()
def second():
    first_in.wait(30)
    with switch:
        second_in.set()
        first_out.wait(30)
        kinds.append(kind())
    kinds.append(kind())
threads = [threading.Thread(target=work) for work in (first, second)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(kinds)
async def first_to_end(both_in, ended):
    with switch:
        await both_in.wait()
    ended.set()
async def last_to_end(both_in, ended):
    with switch:
        both_in.set()
        await ended.wait()
        return kind()
async def at_once():
    both_in, ended = asyncio.Event(), asyncio.Event()
    return await asyncio.gather(first_to_end(both_in, ended), last_to_end(both_in, ended)), kind()
print(asyncio.run(at_once()))
""",
    "errors": """
try:
    with jupyter_gpudask.gpu(fallback="error", dataframe="pandas"):
        da.ma.masked_equal(da.arange(4, chunks=2), 2).compute()
except TypeError as error:
    print(traceback.format_exception_only(error)[-1].strip())
try:
    with switch:
        np.asarray(da.arange(4, chunks=2).compute())
except TypeError as error:
    print(traceback.format_exception_only(error)[-1].strip())
with jupyter_gpudask.gpu(dataframe="pandas", results="host"):
    print(type(np.asarray(da.arange(4, chunks=2).compute())).__module__)
    on_gpu = da.arange(4, chunks=2).map_blocks(lambda block: np.sort(np.asarray(block)))
print(type(on_gpu.compute()).__module__)
try:
    jupyter_gpudask.gpu(pool="lots").__enter__()
except jupyter_gpudask.errors.SpecError as error:
    print(error)
""",
    "fork": """
with switch:
    child = os.fork()
    if not child:
        sys.exit(3)
    end = time.monotonic() + 30
    while not (ended := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() < end:
        time.sleep(0.1)
    if not ended[0]:
        os.kill(child, 9)
    print(os.waitstatus_to_exitcode(ended[1]), kind())
""",
}


@pytest.fixture(scope="module")
def printed():
    """What each part has printed; nothing may be on stderr."""
    lines, errors = run("\n".join(f"print('PART', {part!r}, flush=True)\n{code}" for part, code in PARTS.items()))
    assert errors == ""
    parts = "\n".join(lines).split("PART ")[1:]
    return {part.split("\n")[0]: part.rstrip("\n").split("\n")[1:] for part in parts}


def test_the_context_manager_switches_and_ends_and_imports_nothing_of_ipython(printed):
    *kinds, refused = printed["switch"]
    assert kinds == ["numpy", "cupy 1 False", "numpy True", "cupy", "numpy", "[]", "numpy numpy"]
    assert refused.startswith("The running cluster has other options than you asked for: ")
    assert refused.endswith("Give all gpu() of a script the same options.")


def test_the_decorator_switches_functions_and_coroutines_and_refuses_generators(printed):
    kinds, refused = printed["decorator"]
    assert kinds == "cupy cupy cupy cupy numpy"
    assert "cannot decorate returns_a_generator: the body of a generator runs after the call" in refused


def test_one_switch_may_be_used_by_several_threads_and_tasks_but_is_left_where_it_was_entered(printed):
    refused, *kinds = printed["threads"]
    assert refused.startswith("A gpu() block was entered in one thread and left in another")
    assert kinds == ["numpy", "['cupy', 'numpy']", "([None, 'cupy'], 'numpy')"]


def test_errors_say_how_to_do_without_the_library_and_how_to_convert_a_result(printed):
    library, result, *kinds, option = printed["errors"]
    assert library == (
        'CuPy does not support everything that NumPy does. To compute arrays with NumPy, use gpu(array="numpy").'
    )
    assert result == (
        "A result on the GPU is not converted to a NumPy array implicitly. To convert a CuPy array, use x.get(); "
        'to get all results as NumPy and pandas, use gpu(results="host").'
    )
    assert kinds == ["numpy", "numpy"]  # the second one was computed after its block
    assert option.startswith("--pool 'lots' is not allowed: give a fraction of the memory above 0 and up to 1")


def test_a_fork_ends_and_leaves_the_cluster_to_its_parent(printed):
    assert printed["fork"] == ["3 cupy"]


def test_without_a_gpu_it_says_so_and_runs_on_the_cpu():
    printed, errors = run("with jupyter_gpudask.gpu():\n    print(kind())", FAKE_NVML_ERROR="LIBRARY_NOT_FOUND")
    assert printed == ["numpy"]
    assert "UserWarning: This machine has no NVIDIA driver. This runs on the CPU cluster" in errors
