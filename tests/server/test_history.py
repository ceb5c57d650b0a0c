"""The history on disk: what was recorded while clusters were busy, with and without a browser."""

import gzip
import json
import stat
import time

import pytest
from helpers import fake_gpu_environment, wait_until

from jupyter_gpudask.protocol.rest import CellBand, GpuInfo, GpuList
from jupyter_gpudask.server.history import Archive, History
from jupyter_gpudask.server.monitor import MachineState

MACHINE = MachineState(1.0, 2.0, 2**30, 2**33, None, None)


def add(history, when, utilization=37.0, memory=2**30):
    gpu = GpuInfo(index=0, uuid="GPU-0", name="H200", utilization=utilization, memory_used=memory)
    history.add(when, GpuList(gpus=(gpu,)), [], MACHINE)


def test_ten_seconds_are_one_sample_with_mean_shares_and_largest_sizes_and_idle_times_are_left_out(tmp_path):
    history = History(900, Archive(tmp_path))
    start = time.time() // 10 * 10 - 100
    add(history, start - 50)  # nothing is busy
    history.is_recorded = True
    for second in range(20):
        add(history, start + second, utilization=float(second), memory=second * 2**20)
    samples = history.last(3600).samples
    assert [sample.time - start for sample in samples] == [9, 19]
    assert [sample.gpus["GPU-0"].utilization for sample in samples] == [4.5, 14.5]
    assert [sample.gpus["GPU-0"].memory_used for sample in samples] == [9 * 2**20, 19 * 2**20]
    assert history.last(time.time() - start - 15).samples == samples[1:]
    assert len(history.since(0)) == 21


def test_another_server_of_the_user_reads_the_same_history_with_its_cells(tmp_path):
    History(900, Archive(tmp_path)).last(60)
    first = History(900, Archive(tmp_path / "history"))
    cell = CellBand(began=time.time() - 5, seconds=2.5, number=3, kernel_id="k", notebook="a/b.ipynb")
    first.add_cell(cell)
    first.save()
    assert History(900, Archive(tmp_path / "history")).last(3600).cells == (cell,)
    assert not History(900, Archive(tmp_path / "history")).last(1).cells
    files = list((tmp_path / "history").iterdir())
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE((tmp_path / "history").stat().st_mode) == 0o700


def test_the_files_stay_below_their_limit_and_the_oldest_rows_go_first(tmp_path):
    archive = Archive(tmp_path, max_bytes=2000)
    for number in range(100):
        archive.append([{"gpus": {}, "time": time.time(), "number": f"{number} {hash(str(number))}"}])
        assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= 4000
    numbers = [int(row["number"].split()[0]) for row in archive.read()]
    assert numbers == list(range(numbers[0], 100))
    assert 0 < numbers[0] < 90


def test_a_file_of_yesterday_is_replaced_and_a_torn_one_is_read_up_to_its_fault(tmp_path):
    archive = Archive(tmp_path)
    yesterday = time.time() - 25 * 3600
    archive.append([{"gpus": {}, "time": when} for when in (yesterday - 1, yesterday)])
    assert [row["time"] for row in archive.read()] == [yesterday - 1, yesterday]
    now = time.time()
    for _ in range(2):
        archive.append([{"gpus": {}, "time": now}])
    assert [row["time"] for row in archive.read()] == [yesterday - 1, yesterday, now, now]
    (new,) = [path for path in tmp_path.glob("*.gz") if ".old." not in path.name]
    new.write_bytes(new.read_bytes() + gzip.compress(json.dumps({"time": 1}).encode())[:-12])
    assert [row["time"] for row in archive.read()][-1] == now


def test_a_folder_that_cannot_be_written_to_is_logged_once_and_costs_nothing_else(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    history = History(900, Archive(tmp_path / "file" / "history"))
    history.is_recorded = True
    for second in range(3):
        add(history, time.time() - 30 + 10 * second)
        history.save()
    assert len([record for record in caplog.records if "cannot be written" in record.message]) == 1
    assert history.last(60).samples == ()


@pytest.mark.cluster
def test_a_cell_that_runs_without_a_browser_is_in_the_history_with_its_metrics(own_server):
    server = own_server(environment=fake_gpu_environment(cupy=True))
    kernel = server.kernel("night.ipynb")
    assert server.start(kernel, engine="cuda", gpus=1, workers=None)["status"] == "ready"
    kernel.ok("%load_ext jupyter_gpudask\nimport dask.array as da, time")
    code = "da.ones(8, chunks=2).map_blocks(lambda block: time.sleep(1.5) or block).sum().compute()"
    lines = kernel.ok(f"%%gpudask --dataframe pandas\n{code}").displayed

    def part(seconds=3600):
        return server.fetch(f"history?seconds={seconds}").body

    def own_cells():  # all servers of a user share the history, and so do those of tests that run at the same time
        return [cell for cell in part().get("cells", ()) if cell["kernel_id"] == kernel.id]

    wait_until(own_cells)
    (cell,) = own_cells()
    assert (cell["notebook"], cell["failed"]) == ("night.ipynb", False)
    assert cell["seconds"] > 1.5
    assert f" · {cell['seconds']:.1f} s · " in lines[-1]
    kernel.run("%%gpudask\nraise KeyboardInterrupt")
    wait_until(lambda: any(each["failed"] and each["interrupted"] for each in own_cells()))
    shown, _ = server.cluster(kernel)["cells"]
    assert shown["began"] == cell["began"]
    samples = part()["samples"]
    gpus = [gpu for sample in samples for gpu in sample["gpus"].values()]
    assert {gpu["utilization"] for gpu in gpus} == {37}
    assert any(kernel.id in sample["workers"] for sample in samples)
    wait_until(lambda: len(part()["samples"]) == len(samples) or time.sleep(1))
    for seconds in ("0", "nan", "soon", "86401"):
        assert server.fetch(f"history?seconds={seconds}").status == 400


@pytest.mark.cluster
def test_a_cell_whose_kernel_is_killed_or_whose_cluster_is_stopped_has_failed(own_server):
    server = own_server()
    kernel = server.kernel("killed.ipynb")

    def own_cells():
        cells = server.fetch("history?seconds=3600").body.get("cells", ())
        return [(cell["failed"], cell["seconds"] > 1) for cell in cells if cell["kernel_id"] == kernel.id]

    assert server.start(kernel)["status"] == "ready"
    kernel.ok("%load_ext jupyter_gpudask")
    kernel.client.execute("%%gpudask\nimport os, time\ntime.sleep(2)\nos.kill(os.getpid(), 9)")
    wait_until(lambda: own_cells() == [(True, True)])
    (shown,) = server.cluster(kernel)["cells"]
    assert shown["failed"]
    kernel.disconnect()
    kernel.ok("%load_ext jupyter_gpudask")
    kernel.ok("%gpudask on")
    kernel.client.execute("import dask, time\ntime.sleep(600)")
    wait_until(lambda: any(cell["seconds"] is None for cell in server.cluster(kernel)["cells"]))
    time.sleep(2)
    server.fetch(f"clusters/{kernel.id}", "DELETE")
    wait_until(lambda: own_cells() == [(True, True)] * 2)
