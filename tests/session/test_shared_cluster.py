"""``python -m jupyter_gpudask cluster``: notebooks share a cluster of a terminal, which outlives them."""

import json
import os
import signal
import stat
from contextlib import contextmanager
from pathlib import PurePosixPath

import pytest
from distributed import Client
from helpers import Kernel, fake_gpu_environment, leftover_directories, pids_of_session, thread_for_cells, wait_until
from others import snapshot, terminal

from jupyter_gpudask.machine.leases import LeaseFolder
from jupyter_gpudask.session.command import main

CELL = "%%gpudask --dataframe pandas"
GONE = "No cluster listens at {}: it has ended, or runs on another machine. Start one in a terminal"


@contextmanager
def kernels(environment=None):
    both = []
    try:
        for _ in range(2):
            both.append(Kernel(environment))
            both[-1].ok("%load_ext jupyter_gpudask\nimport dask.array as da, distributed, os, time")
        yield both
    finally:
        for kernel in both:
            kernel.shutdown()


def interrupt_cell(kernel, other, observer):
    """Interrupt a cell while its task runs, and another kernel has computed beside it; the reply."""
    kernel.ok("def forever():\n    while True: time.sleep(0.01)")
    with thread_for_cells() as thread:
        reply = thread.submit(kernel.run, f"{CELL}\ndistributed.get_client().submit(forever).result()")
        wait_until(lambda: any("forever" in key for keys in observer.processing().values() for key in keys))
        assert other.ok(f"{CELL}\nint(da.ones(30, chunks=3).sum().compute())").value == "30"
        kernel.interrupt()
        reply = reply.result()
    wait_until(lambda: not any(observer.processing().values()))
    return reply


def share(first, second, address, file):
    """Two kernels use the cluster at once, and leave; nothing of them is left."""
    with Client(address, set_as_default=False) as observer:
        observer.wait_for_workers(2, timeout=60)
        before, pids = snapshot(observer), observer.run(os.getpid)
        place = PurePosixPath(address).parent.name
        assert f"at {place}" in first.ok(f"%gpudask connect {address}").value
        assert f"at {place}" in second.ok(f"%gpudask connect --scheduler-file {file}").value
        for kernel, number in ((first, 40), (second, 20)):
            array = f"x = da.ones(({number}, {number}), chunks=10).persist()"
            reply = kernel.ok(f"{CELL}\n{array}\nfloat(x.sum().compute())")
            assert float(reply.value) == number**2
        library = type_of_blocks(second)
        reply = interrupt_cell(first, second, observer)
        assert reply.error == "KeyboardInterrupt"
        assert reply.displayed[-1].endswith(" · 0 of 1 task, 1 cancelled")
        assert observer.run(os.getpid) == pids
        # Neither the operations of other kernels, nor their results.
        details = "from jupyter_gpudask.client.calls import start_cell_metrics\n"
        details += "start_cell_metrics(distributed.get_client(), 10, on_workers=False)().operations"
        assert first.ok(details).value == "{}"
        held = second.ok("held = %gpudask held\nlist(held.variables), held.total").value
        assert held == f"(['x'], {20 * 20 * 8 if library == 'cupy' else 32})"
        second.ok("distributed.get_client().submit(print, 'of a task').result()")
        assert second.ok("logs = %gpudask logs\nprint(*logs.logs.values())").printed.count("of a task") == 1
        assert first.ok("%gpudask disconnect").value == f"Disconnected from {address}."
        assert second.ok(f"{CELL}\nfloat(x.sum().compute())").value == "400.0"
        second.shutdown()
        wait_until(lambda: snapshot(observer)[0] == before[0])
        assert sorted(map(str, snapshot(observer)[1].values())) == sorted(map(str, before[1].values()))
        assert observer.run(os.getpid) == pids
        return library, observer.run_on_scheduler(os.getpid)


def type_of_blocks(kernel):
    return kernel.ok(f"{CELL}\nprint(type(x._meta).__module__)").printed.strip()


@pytest.mark.cluster
def test_notebooks_share_a_cluster_and_leave_it_as_it_was_and_an_interrupt_of_its_command_leaves_nothing(tmp_path):
    file, directories = tmp_path / "of several.json", leftover_directories()
    on_gpus = {"environment": fake_gpu_environment(cupy=True, FAKE_GPUS="2")}  # which it does not use
    options = ("--cpu", "2", "--scheduler-file", str(file))
    with terminal(*options, **on_gpus) as running, kernels(**on_gpus) as (first, second):
        connect = f"%gpudask connect --scheduler-file '{file}'"
        assert running.line == f"CPU cluster, 2 workers · Type in notebooks: {connect} · Ctrl-C ends it.\n"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        address = json.loads(file.read_text())["address"]
        library, supervisor = share(first, second, address, f"'{file}'")
        assert library == "numpy"
        assert running.end(signal.SIGINT) == (0, "")
        assert (pids_of_session(supervisor), leftover_directories(), file.exists()) == ([], directories, False)
        assert GONE.format(address) in first.run(f"%gpudask connect {address}").error_value


@pytest.mark.cluster
def test_its_gpus_are_reserved_and_others_see_by_which_terminal(tmp_path):
    environment, file = fake_gpu_environment(cupy=True, FAKE_GPUS="3"), tmp_path / "file.json"
    with terminal("--gpus", "1,2", "--scheduler-file", str(file), environment=environment) as running:
        holder = f"terminal {running.name}"
        assert [lease.holder for lease in LeaseFolder().read()] == [holder]
        with kernels(environment) as (first, second):
            shown = first.ok("shown = %gpudask gpus\nlist(shown.holders.values())").value
            assert shown == str([[holder], [holder]])
            refused = first.run("%gpudask start --gpus 1,").error_value
            assert refused.startswith(f"GPU 1 is reserved by {holder}.")
            library, _ = share(first, second, json.loads(file.read_text())["address"], file)
            assert library == "cupy"
            # Results that are moved to the kernel are on a GPU of the cluster.
            assert first.ok("os.environ['CUDA_VISIBLE_DEVICES'].split(',')[0]").value.startswith("'GPU-00000001")
            assert running.end(signal.SIGTERM) == (0, "")
            assert LeaseFolder().read() == []


@pytest.mark.cluster
def test_the_end_of_the_cluster_ends_the_command_and_the_cells_that_use_it(kernel):
    with terminal("--cpu", "1") as running:
        address = running.line.split("%gpudask connect ")[1].split()[0]
        kernel.ok(f"%load_ext jupyter_gpudask\nimport distributed, threading, time\n%gpudask connect {address}")
        other = f"distributed.Client({address!r}, set_as_default=False)"
        shut_down = f"threading.Timer(0.5, {other}.shutdown).start()"
        reply = kernel.run(f"{CELL}\n{shut_down}\ndistributed.get_client().submit(time.sleep, 300).result()")
        assert reply.error == "ResultsLostError"
        assert f"The connection to the scheduler at {address} was lost" in reply.error_value
        lost = "A client or Dask's idle timeout has shut down the cluster; its results are lost.\n"
        assert running.end(None) == (1, lost)


@pytest.mark.cluster
def test_a_scheduler_file_that_cannot_be_written_ends_the_command(tmp_path):
    directories = leftover_directories()
    with terminal("--cpu", "1", "--scheduler-file", str(tmp_path)) as running:
        status, errors = running.end(None)
    assert (status, errors) == (
        1,
        f"The scheduler file {tmp_path} cannot be written: Is a directory. Give another path.\n",
    )
    assert leftover_directories() == directories


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--gpus x", "--gpus 'x' is not allowed: give"),
        ("--gpus 1 --cpu", "--gpus and --cpu are mutually exclusive."),
        ("--gpus 1", "This machine has no NVIDIA driver."),
    ],
)
def test_options_that_are_wrong_are_one_sentence(options, sentence, capsys):
    assert main(options.split()) == 1
    assert capsys.readouterr().err.startswith(sentence)


def test_options_without_a_meaning_for_a_terminal_are_refused(capsys):
    with pytest.raises(SystemExit) as raised:
        main(["--protocol", "ucx"])
    assert raised.value.code == 2
    assert "unrecognized arguments: --protocol ucx" in capsys.readouterr().err
