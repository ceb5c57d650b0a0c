"""`jupyter_gpudask.gpu` in scripts, on real clusters: with pretend GPUs, and without any."""

import subprocess
import sys

import pytest
from helpers import fake_gpu_environment

pytestmark = pytest.mark.cluster

SCRIPT = """
import asyncio, threading
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


def test_the_context_manager_and_the_decorator_switch_and_end():
    printed, errors = run("""
print(kind())
with jupyter_gpudask.gpu(results="gpu", dataframe="pandas", gpus=1) as client:
    print(kind(), len(client.nthreads()))
    with jupyter_gpudask.gpu(dataframe="pandas", gpus=1, results="host") as again:
        print(kind(), again is client)
    print(kind())
print(kind())

@jupyter_gpudask.gpu(results="gpu", dataframe="pandas")
def decorated():
    return kind()

@jupyter_gpudask.gpu(results="gpu", dataframe="pandas")
async def coroutine():
    await asyncio.sleep(0)
    return kind()

print(decorated(), decorated(), asyncio.run(coroutine()), kind())
try:
    with jupyter_gpudask.gpu(results="gpu", dataframe="pandas"):
        1 / 0
except ZeroDivisionError:
    print(kind(), dask.config.get("array.backend", "numpy"))
try:
    jupyter_gpudask.gpu(gpus=2).__enter__()
except jupyter_gpudask.errors.ClusterExistsError as error:
    print(error)

switch = jupyter_gpudask.gpu(results="gpu", dataframe="pandas")
entering = threading.Thread(target=switch.__enter__)
entering.start()
entering.join()
try:
    switch.__exit__(None, None, None)
except jupyter_gpudask.errors.SwitchThreadError as error:
    print(error)
print(kind())

@jupyter_gpudask.gpu(results="gpu", dataframe="pandas")
def returns_a_generator():
    return (kind() for _ in range(2))
try:
    returns_a_generator()
except TypeError as error:
    print(error)
""")
    assert printed[:7] == [
        "numpy",
        "cupy 1",
        "numpy True",
        "cupy",
        "numpy",
        "cupy cupy cupy numpy",
        "numpy numpy",
    ]
    assert printed[7].startswith("The running cluster has other options than you asked for: ")
    assert printed[7].endswith("Give all gpu() of a script the same options.")
    assert printed[8].startswith("A gpu() block was entered in one thread and left in another")
    assert printed[9] == "numpy"
    assert "cannot decorate returns_a_generator: the body of a generator runs after the call" in printed[10]
    assert errors == ""


def test_a_script_imports_nothing_of_ipython():
    printed, _ = run("""
import sys
with jupyter_gpudask.gpu(results="gpu", dataframe="pandas", gpus=1) as client:
    print(kind(), client.submit(lambda: "IPython" in __import__("sys").modules).result())
print(sorted({name.partition(".")[0] for name in sys.modules} & {"IPython", "traitlets", "ipywidgets", "jedi"}))
""")
    assert printed == ["cupy False", "[]"]


def test_an_error_of_the_gpu_library_says_how_to_do_without_it():
    printed, _ = run("""
import traceback
try:
    with jupyter_gpudask.gpu(fallback="error", dataframe="pandas", gpus=1):
        da.ma.masked_equal(da.arange(4, chunks=2), 2).compute()
except TypeError as error:
    print(traceback.format_exception_only(error)[-1].strip())
""")
    assert printed[-1] == (
        'CuPy does not support everything that NumPy does. To compute arrays with NumPy, use gpu(array="numpy").'
    )


def test_after_the_block_a_collection_is_computed_as_in_it():
    printed, _ = run("""
import numpy as np
with jupyter_gpudask.gpu(dataframe="pandas", gpus=1):
    x = da.arange(4, chunks=2).map_blocks(lambda block: np.sort(np.asarray(block)))
print(type(x.compute()).__module__, type(da.ones(1)._meta).__module__)
""")
    assert printed == ["numpy numpy"]


def test_a_result_that_was_taken_for_numpy_says_how_to_make_it_that():
    printed, _ = run("""
import traceback
import numpy as np
try:
    with jupyter_gpudask.gpu(results="gpu", dataframe="pandas", gpus=1):
        np.asarray(da.arange(4, chunks=2).compute())
except TypeError as error:
    print(traceback.format_exception_only(error)[-1].strip())
with jupyter_gpudask.gpu(dataframe="pandas", gpus=1, results="host"):
    print(type(np.asarray(da.arange(4, chunks=2).compute())).__module__)
""")
    way_out = "A result on the GPU is not converted to a NumPy array implicitly. To convert a CuPy array, use x.get(); "
    way_out += 'to get all results as NumPy and pandas, use gpu(results="host").'
    assert printed[-2:] == [way_out, "numpy"]


def test_one_switch_may_be_used_by_several_threads():
    printed, _ = run("""
switch = jupyter_gpudask.gpu(results="gpu", dataframe="pandas", gpus=1)
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

async def later():
    return kind()
print(asyncio.run(jupyter_gpudask.gpu(results="gpu", dataframe="pandas")(lambda: later())()))
""")
    assert printed == ["['cupy', 'numpy']", "([None, 'cupy'], 'numpy')", "cupy"]


def test_a_fork_ends_and_leaves_the_cluster_to_its_parent():
    printed, _ = run("""
import os, sys, time
with jupyter_gpudask.gpu(results="gpu", dataframe="pandas", gpus=1):
    print(kind())
    child = os.fork()
    if not child:
        sys.exit(3)
    end = time.monotonic() + 30
    while not (ended := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() < end:
        time.sleep(0.1)
    if not ended[0]:
        os.kill(child, 9)
    print(os.waitstatus_to_exitcode(ended[1]), kind())
""")
    assert printed == ["cupy", "3 cupy"]


def test_without_a_gpu_it_says_so_and_runs_on_the_cpu():
    printed, errors = run("with jupyter_gpudask.gpu():\n    print(kind())", FAKE_NVML_ERROR="LIBRARY_NOT_FOUND")
    assert printed == ["numpy"]
    assert "UserWarning: This machine has no NVIDIA driver. This runs on the CPU stand-in" in errors


def test_a_bad_option_is_one_sentence():
    printed, _ = run("""
try:
    jupyter_gpudask.gpu(pool="lots").__enter__()
except jupyter_gpudask.errors.SpecError as error:
    print(error)
""")
    assert printed == [
        "--pool 'lots' is not allowed: give a fraction of the memory above 0 and up to 1, a size such as 20GB, or none."
    ]
