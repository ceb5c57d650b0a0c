"""A worker of a GPU starts its next task while a task runs on the host; the device computes for one task at a time."""

import json
import re
import threading
from itertools import pairwise

import pytest
from helpers import kernel_with_cupy, wait_until

pytestmark = pytest.mark.cluster

FUNCTIONS = """
import json, os, time
kernel_pid = os.getpid()
import dask.array as da, numpy as np
from dask.utils import SerializableLock
from jupyter_gpudask.fallback.host_call import HostFallback
lock = SerializableLock()
def note(name, began):
    if os.getpid() == kernel_pid:  # of metadata
        return
    with open(log, "a") as file:
        file.write(json.dumps([name, began, time.monotonic()]) + "\\n")
def on_device(block):
    began = time.monotonic()
    time.sleep(0.05)
    note("device", began)
    return block + 1
def on_host(block):
    values = np.asarray(block)  # which CuPy refuses
    began = time.monotonic()
    time.sleep(0.3)
    note("host", began)
    return values * 2
def briefly_on_host(block):
    values = np.asarray(block)
    began = time.monotonic()
    time.sleep(0.005)
    note("host", began)
    return values
def fails_on_host(block):
    values = np.asarray(block)
    time.sleep(0.3)
    raise ValueError("of the user")
def with_cupy(block):
    cupy.asarray(block)
    return on_host(block)
def waits(block):
    np.asarray(block)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        pass
def long_and_seceding(block):
    values = np.asarray(block)
    from distributed import secede
    time.sleep(0.2)
    secede()
    return values
def locked_on_host(block):
    with lock:
        return on_host(block)
def locked_on_device(block):
    with lock:
        return on_device(block)
def locked_with_a_part(block):
    with lock:
        return HostFallback(on_host)(block)
def allocates(block):
    np.asarray(block)
    began = time.monotonic()
    values = np.ones(75_000_000)
    time.sleep(0.2)
    note("host", began)
    return values[:3]
def computes(block):
    from distributed import worker_client
    values = np.asarray(block)
    time.sleep(0.1)
    with worker_client() as inner:
        return values + inner.submit(sum, [1, 2], pure=False).result()
def read_image(name):
    began = time.monotonic()
    time.sleep(0.1)
    note("read", began)
    if "broken" in name:
        raise ValueError(name)
    return np.full((2, 3), float(name.rpartition("/")[2].partition(".")[0]))
def images(count, *, broken=()):
    import tempfile
    from dask.array.image import imread
    folder = tempfile.mkdtemp()
    for number in range(count):
        open(f"{folder}/{number:03}{'.broken' if number in broken else ''}.npy", "w").close()
    return imread(f"{folder}/*.npy", imread=read_image, preprocess=None)
def state():
    def look(dask_worker):
        plugin = dask_worker.plugins["gpudask-host-threads"]
        threads = len(dask_worker.executor._threads)
        return len(plugin._running), len(plugin._seceded), threads, len(plugin.reads._counted)
    (found,) = client.run(look).values()
    return found
"""


@pytest.fixture(scope="module")
def kernel():
    with kernel_with_cupy(1) as kernel:
        kernel.ok(FUNCTIONS)
        kernel.ok("from jupyter_gpudask.worker.host_threads import HostThreadsPlugin")
        kernel.ok("found = client.register_plugin(HostThreadsPlugin(3))")
        yield kernel


@pytest.fixture
def intervals(kernel, tmp_path):
    """What the functions of the tests have noted, by name: when each call began and ended."""
    log = tmp_path / "log"
    log.touch()
    kernel.ok(f"log = {str(log)!r}")

    def read(name):
        lines = map(json.loads, log.read_text().splitlines())
        return sorted((began, ended) for found, began, ended in lines if found == name)

    return read


def most_at_once(intervals):
    """How many of the intervals have a point in common, at most."""
    changes = sorted([(began, 1) for began, _ in intervals] + [(ended, -1) for _, ended in intervals])
    count = most = 0
    for _, change in changes:
        count += change
        most = max(most, count)
    return most


def test_host_parts_of_one_worker_overlap_and_device_parts_never_do(kernel, intervals):
    value = kernel.ok(
        "%%gpudask\nx = da.ones(24, chunks=3).map_blocks(on_device, dtype=float).map_blocks(on_host, dtype=float)\n"
        "set(x.map_blocks(on_device, dtype=float).compute().tolist())"
    ).value
    assert value == "{5.0}"
    device, host = intervals("device"), intervals("host")
    assert len(device) == 16
    assert len(host) == 8
    assert most_at_once(host) == 3, "as many as the plugin allows"
    assert all(ended <= began for (_, ended), (began, _) in pairwise(device))
    assert eval(kernel.ok("state()").value)[:2] == (0, 0)  # noqa: S307


def test_blocks_are_read_before_the_steps_of_their_task(kernel, intervals):
    """The first one is read by the kernel, for its shape, and the next one alone, for its size."""
    reply = kernel.ok("%%gpudask\n(images(60) + 1).max(axis=0).compute().tolist()")
    assert reply.value == "[[60.0, 60.0, 60.0], [60.0, 60.0, 60.0]]"
    read = intervals("read")
    assert len(read) == 60
    assert 3 <= most_at_once(read) <= 6, "in threads of the plugin, and of tasks that find no room"
    assert 5 < int(re.search(r"(\d+) tasks", reply.displayed[-1])[1]) < 20, "of several blocks each"
    assert eval(kernel.ok("state()").value) == (0, 0, 1, 0)  # noqa: S307


def test_an_error_of_a_read_is_that_of_the_cell(kernel):
    reply = kernel.run("%%gpudask\n(images(60, broken=[7]) + 1).max(axis=0).compute()")
    assert reply.error == "ValueError"
    assert reply.error_value.endswith("007.broken.npy")
    wait_until(lambda: eval(kernel.ok("state()").value) == (0, 0, 1, 0))  # noqa: S307


def test_an_interrupt_ends_the_reads_of_a_task(kernel, intervals):
    timer = threading.Timer(1, kernel.interrupt)
    timer.start()
    reply = kernel.run("%%gpudask\n(images(500) + 1).max(axis=0).compute()")
    timer.join()
    assert reply.error == "KeyboardInterrupt"
    wait_until(lambda: eval(kernel.ok("state()").value) == (0, 0, 1, 0))  # noqa: S307
    assert len(intervals("read")) < 100


def test_a_function_that_may_use_the_device_runs_alone(kernel, intervals):
    kernel.ok("%%gpudask\nda.ones(12, chunks=3).map_blocks(with_cupy, dtype=float).compute()")
    assert most_at_once(intervals("host")) == 1


COUNTING = """
def count():
    from jupyter_gpudask.worker.host_threads import HostThreadsPlugin
    HostThreadsPlugin.asked, HostThreadsPlugin.ask = [], HostThreadsPlugin.may_run_on_host
    def ask(self, name, is_on_host):
        return self.ask(name, lambda: self.asked.append(name) or is_on_host())
    HostThreadsPlugin.may_run_on_host = ask
def counted():
    from jupyter_gpudask.worker.host_threads import HostThreadsPlugin
    HostThreadsPlugin.may_run_on_host = HostThreadsPlugin.ask
    asked = HostThreadsPlugin.asked
    return [asked.count(name) for name in set(asked)]
"""


def test_tasks_of_a_collection_on_the_device_are_asked_once_whether_they_run_on_the_host(kernel, intervals):
    kernel.ok(f"{COUNTING}\nfound = client.run(count)")
    kernel.ok("%%gpudask\nda.ones(24, chunks=3).map_blocks(on_device, dtype=float).compute()")
    assert len(intervals("device")) == 8
    assert kernel.ok("found, = client.run(counted).values()\nset(found)").value == "{1}"


def test_blocks_that_are_on_the_host_overlap(kernel, intervals):
    assert kernel.ok("set(da.ones(12, chunks=3).map_blocks(on_host, dtype=float).compute().tolist())").value == "{2.0}"
    assert most_at_once(intervals("host")) == 3


def test_parts_of_milliseconds_overlap_as_the_reads_of_images(kernel, intervals):
    kernel.ok("%%gpudask\nda.ones(180, chunks=3).map_blocks(briefly_on_host, dtype=float).compute()")
    assert len(intervals("host")) == 60
    assert most_at_once(intervals("host")) > 1


def test_the_error_of_a_part_on_the_host_is_that_of_the_cell(kernel):
    reply = kernel.run("%%gpudask\nda.ones(12, chunks=3).map_blocks(fails_on_host, dtype=float).compute()")
    assert (reply.error, reply.error_value) == ("ValueError", "of the user")


def test_a_task_can_secede_within_a_part_that_has_seceded(kernel):
    code = "%%gpudask\nset(da.ones(12, chunks=3).map_blocks(long_and_seceding, dtype=float).compute().tolist())"
    assert kernel.ok(code).value == "{1.0}"


def test_a_lock_of_the_user_around_parts_holds_nothing_up(kernel, intervals):
    names = ("locked_on_host", "locked_on_device", "locked_with_a_part")
    mapped = "da.ones(24, chunks=3)" + "".join(f".map_blocks({name}, dtype=float)" for name in names)
    assert kernel.ok(f"%%gpudask\nset({mapped}.compute().tolist())").value == "{6.0}"
    assert len(intervals("host")) == 8 * 2
    assert most_at_once(intervals("host")) == 1


def test_a_function_can_compute_with_the_cluster_within_a_part(kernel):
    code = "%%gpudask\nset(da.ones(12, chunks=3).map_blocks(computes, dtype=float).compute().tolist())"
    assert kernel.ok(code).value == "{4.0}"
    assert eval(kernel.ok("state()").value)[2] == 1  # noqa: S307


def test_parts_go_on_while_the_plugin_is_registered_again(kernel, intervals):
    kernel.ok("%%gpudask\nkept = da.ones(36, chunks=3).map_blocks(on_host, dtype=float).persist()")
    for _ in range(3):
        kernel.ok("time.sleep(0.3)\nfound = client.register_plugin(HostThreadsPlugin(3))")
    assert kernel.ok("set(kept.compute().tolist())").value == "{2.0}"
    assert len(intervals("host")) == 12


def test_an_interrupt_ends_the_parts_and_the_worker_computes_on(kernel, intervals):
    before = kernel.ok("(pid,) = client.run(os.getpid).values()\npid").value
    timer = threading.Timer(2, kernel.interrupt)
    timer.start()
    reply = kernel.run("%%gpudask\nda.ones(24, chunks=3).map_blocks(waits, dtype=float).compute()")
    timer.join()
    assert reply.error == "KeyboardInterrupt"
    wait_until(lambda: eval(kernel.ok("state()").value)[:2] == (0, 0))  # noqa: S307
    for _ in range(3):
        mapped = "da.ones(24, chunks=3).map_blocks(on_device, dtype=float).map_blocks(on_host, dtype=float)"
        kernel.ok(f"%%gpudask\n{mapped}.compute()")
    device = intervals("device")
    assert len(device) == 24
    assert all(ended <= began for (_, ended), (began, _) in pairwise(device))
    assert most_at_once(intervals("host")) == 3
    assert kernel.ok("(pid,) = client.run(os.getpid).values()\npid").value == before


def test_blocks_of_an_hdf5_file_are_read_without_hdf5(kernel, tmp_path):
    pytest.importorskip("h5py")
    kernel.ok(
        "import h5py\nfrom jupyter_gpudask.fallback import hdf5_blocks\n"
        "values = np.arange(160_000.0).reshape(400, 400)\n"
        f"with h5py.File({str(tmp_path / 'x.h5')!r}, 'w') as file:\n"
        "    data = file.create_dataset('x', data=values, chunks=(100, 200), compression='gzip', shuffle=True)"
    )
    value = kernel.ok(
        f"%%gpudask\nwith h5py.File({str(tmp_path / 'x.h5')!r}) as file:\n"
        "    read = da.from_array(file['x'], chunks=(100, 200))\n(cupy.asnumpy(read.compute()) == values).all()"
    ).value
    assert value == "np.True_"
    assert kernel.ok("list(client.run(lambda: hdf5_blocks._layout_of.cache_info().hits).values())").value == "[7]"


def test_a_profile_measures_parts_that_overlap(kernel, intervals):
    reply = kernel.ok("%%gpudask --profile\nda.ones(24, chunks=3).map_blocks(on_host, dtype=float).compute()")
    assert most_at_once(intervals("host")) == 3
    assert "on_host" in "".join(reply.displayed)


@pytest.mark.parametrize("chunks", [3, 20_000_000])
def test_parts_that_need_much_memory_leave_the_worker_alive(tmp_path, chunks):
    log = tmp_path / "log"
    with kernel_with_cupy(2, options="--gpus 1 --memory-limit 3GB") as kernel:
        kernel.ok(FUNCTIONS + f"\nlog = {str(log)!r}")
        kernel.ok("from jupyter_gpudask.worker.host_threads import HostThreadsPlugin")
        kernel.ok("found = client.register_plugin(HostThreadsPlugin(8))")
        before = kernel.ok("(pid,) = client.run(os.getpid).values()\npid").value
        code = f"%%gpudask\nda.ones({8 * chunks}, chunks={chunks}).map_blocks(allocates, dtype=float, chunks=(3,))"
        assert kernel.ok(f"{code}.compute().tolist() == [1.0] * 24").value == "True"
        assert kernel.ok("(pid,) = client.run(os.getpid).values()\npid").value == before
    found = sorted((began, ended) for _, began, ended in map(json.loads, log.read_text().splitlines()))
    assert len(found) == 8, "none ran twice"
    assert 1 <= most_at_once(found) <= 3, "of eight; the first ones show how much they need"
