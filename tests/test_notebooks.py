"""The notebooks in binder/: each runs, on the CPU cluster and with ``-m gpu`` on GPUs, and what it claims is true."""

import ast
import importlib.util
import os
import re
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest
from helpers import Kernel, Reply, wait_until

from jupyter_gpudask.errors import GpuUnavailableError
from jupyter_gpudask.machine.gpus import list_gpus

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "binder").glob("*.ipynb"))
FIGURE = "<Figure size"


def without_gpus():
    return os.environ | {"CUDA_VISIBLE_DEVICES": ""}


def read(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    return notebook


@dataclass
class Run:
    """A notebook whose cells run one by one, in a kernel that is then asked about its variables."""

    kernel: Kernel
    on_gpus: bool
    cells: dict[str, nbformat.NotebookNode]
    replies: dict[str, Reply]

    def until(self, last: str) -> None:
        """Run the cells that have not run yet, including the one with the id `last`."""
        for name, cell in self.cells.items():
            if name not in self.replies:
                run = self.kernel.run if "raises-exception" in cell.metadata.get("tags", ()) else self.kernel.ok
                self.replies[name] = run(cell.source, timeout=300)
            if name == last:
                return

    def value(self, expression: str):
        """The value of a variable or an expression in the kernel, which has a literal as its `repr`."""
        return ast.literal_eval(self.kernel.ok(f"print(repr(({expression})))", timeout=300).printed)

    def shown(self, name: str) -> str:
        """All texts below a cell that are not printed."""
        reply = self.replies[name]
        return "\n".join([reply.value or "", *reply.displayed])

    def where(self) -> str:
        """What the line under a cell begins with."""
        return "CuPy and cuDF on" if self.on_gpus else "NumPy and pandas on the CPU cluster"

    def figures(self) -> int:
        return sum(text.startswith(FIGURE) for reply in self.replies.values() for text in reply.displayed)


def number(text):
    """A NumPy scalar, as a notebook shows it."""
    return float(re.fullmatch(r"np\.float64\((.*)\)", text)[1])


def has_gpus():
    try:
        return bool(list_gpus()) and importlib.util.find_spec("cudf") is not None
    except GpuUnavailableError:
        return False


on_gpus = [pytest.mark.gpu, pytest.mark.skipif(not has_gpus(), reason="needs a GPU and cuDF")]


@pytest.fixture(params=[pytest.param(False, id="cpu"), pytest.param(True, id="gpu", marks=on_gpus)])
def start(request):
    """Starts a kernel for a notebook."""
    kernels = []

    def start(name):
        kernels.append(Kernel(None if request.param else without_gpus()))
        cells = read(ROOT / "binder" / f"{name}.ipynb").cells
        return Run(kernels[-1], request.param, {cell.id: cell for cell in cells if cell.cell_type == "code"}, {})

    yield start
    for kernel in kernels:
        kernel.shutdown()


def needs(run, *modules):
    """Skip a notebook that lacks a package, or a library of the system, as LightGBM may lack libgomp."""
    for module in modules:
        reply = run.kernel.run(f"import {module}", timeout=300)
        if reply.error in ("ModuleNotFoundError", "OSError"):
            pytest.skip(f"needs {module}: {reply.error_value}")
        assert reply.status == "ok", reply.traceback


def test_notebooks_are_stored_without_outputs_and_for_any_python_kernel_and_their_links_lead_to_files():
    for path in NOTEBOOKS:
        notebook = read(path)
        code = [cell for cell in notebook.cells if cell.cell_type == "code"]
        assert not any(cell.outputs or cell.execution_count for cell in code), path
        kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
        assert notebook.metadata.kernelspec == kernel, path
        text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
        targets = re.findall(r'\]\(([^)\s]+)\)|href="([^"]+)"', text)
        files = [(a or b).partition("#")[0] for a, b in targets if "://" not in (a or b)]
        assert [file for file in files if not (path.parent / file).exists()] == [], path


def without_measurements(text):
    """The lines of an output that are the same in each run: without rows of tables, numbers and what follows ` · `."""
    lines = [re.sub(r" · .*", "", line) for line in text.splitlines() if not re.match(r"\d", line)]
    return {re.sub(r"[\d.]+( workers?)?", "#", " ".join(line.split())) for line in lines}


def test_the_cells_of_the_first_steps_display_what_the_page_says():
    page = (ROOT / "docs" / "first-steps.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)\n```$(?:\s+```text\n(.*?)\n```$)?", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 6
    kernel = Kernel(without_gpus())
    try:
        for code, expected in blocks:
            reply = kernel.ok(code)
            displayed = "\n".join([reply.value or "", reply.printed, *reply.displayed])
            assert without_measurements(expected) <= without_measurements(displayed), code
    finally:
        kernel.shutdown()


def test_the_quickstart_opens_with_a_result(start):
    run = start("quickstart")
    run.until("compare")
    assert number(run.replies["random-mean"].value) == pytest.approx(0.5, abs=2e-3)
    assert run.where() in run.shown("random-mean")
    assert "already running" in run.shown("start")
    assert run.figures() == 1
    assert 0.99 * 16e6 < run.value("int(counts.sum())") <= 16e6
    # The answer of Dask itself, computed in the kernel without the cluster.
    check = """
import pandas as pd
expected = people.groupby("name").agg({"x": "mean", "id": "count"}).compute(scheduler="sync").sort_index()
expected = expected.to_pandas() if hasattr(expected, "to_pandas") else expected
pd.testing.assert_frame_equal(by_name.sort_index(), expected, check_dtype=False, check_index_type=False)
assert len(expected) == 26
"""
    run.kernel.ok(check, timeout=300)
    for name in ("outside-sum", "moved-sum"):
        assert run.replies[name].value == "np.float64(16000000.0)"
    assert number(run.replies["mixed-moved"].value) == pytest.approx(1, abs=3e-3)
    mixed, compared = run.replies["mixed"], run.replies["compare"]
    if run.on_gpus:
        assert "on the CPU: z (line 2)" in run.shown("outside-sum")
        assert "z is on the CPU and x on the GPU" in mixed.error_value
        assert re.search(r"^total +yes", run.shown("compare"), re.MULTILINE)
    else:
        assert mixed.value == run.replies["mixed-moved"].value
        assert compared.error_value.startswith("--compare needs GPUs, and this is a CPU cluster.")


def test_the_notebook_that_runs_twice_has_the_same_cells_and_the_same_results(start):
    run = start("unchanged")
    for part in ("frames", "arrays", "model"):
        assert run.cells[f"{part}-1"].source == run.cells[f"{part}-2"].source
    run.until("equal")
    assert all(run.where() in run.shown(f"{part}-2") for part in ("frames", "arrays", "model"))
    assert not any(run.where() in run.shown(f"{part}-1") for part in ("frames", "arrays", "model"))
    assert run.figures() == 6
    differences = re.findall(r" (\S+)$", run.replies["equal"].value, re.MULTILINE)[:3]
    assert [float(difference) < 1e-9 for difference in differences] == [True] * 3
    assert run.value("sorted(int((climate == i).sum()) for i in range(3))") == [20, 20, 20]
    assert run.value("len(by_hour), clear.shape") == (24, (1024, 1024))


def test_the_arrays_are_larger_than_the_results_and_the_decomposition_is_one(start):
    run = start("arrays")
    run.until("held")
    if run.on_gpus:
        assert run.value("5 * device_memory < x.nbytes < 20 * device_memory")
    else:
        assert run.replies["sum"].printed == "x has 0.288 GB in 36 blocks\n"
    assert run.value("float(mean)") == pytest.approx(11, abs=1e-3)
    values = run.value("s.tolist()")
    assert values == sorted(values, reverse=True)
    assert values[4] > 3 * values[5]
    assert run.value("float(noise)") == pytest.approx((1 - 5 / 60) ** 0.5, abs=5e-3)
    run.kernel.ok("%%gpudask\nimport numpy as np\nparts = da.compute(data, u, v)", timeout=300)
    assert run.value("float(abs((parts[1] * s) @ parts[2] - parts[0]).max())") < 1e-8
    assert run.value("float(abs(parts[1].T @ parts[1] - np.eye(60)).max())") < 1e-9
    assert run.value("float(abs(parts[2] @ parts[2].T - np.eye(60)).max())") < 1e-9
    assert re.search(rf"data +10 +{'458' if run.on_gpus else r'45.8'} MiB", run.replies["held"].value)
    assert run.figures() == 1


def test_the_climate_is_that_of_numpy(start):
    run = start("climate")
    needs(run, "flox", "xarray")
    run.until("quantile-figure")
    run.kernel.ok("air = xr.open_zarr(folder / 'air.zarr').air.load(scheduler='threads')")
    run.kernel.ok("from_numpy = air.sel(lat=slice(30, 60)).groupby('time.dayofyear').mean().mean(('lat', 'lon'))")
    assert run.value("float(abs(north - from_numpy).max())") < 1e-3
    assert run.value("float(abs(hot - air.quantile(0.95, 'time')).max())") < 1e-3
    assert run.value("warming") == pytest.approx(0.73, abs=0.2)  # 0.0002 °C a day
    assert run.value("monthly.size, int(smooth.notnull().sum())") == (120, 3653 - 364)
    assert run.where() in run.shown("climatology")
    assert run.figures() == 3


def test_the_spots_of_the_images_are_found(start):
    run = start("images")
    needs(run, "dask_image.ndmeasure", "skimage", "tifffile")
    run.until("write")
    assert run.value("[30 <= number <= 40 for number in spots]") == [True] * run.value("count")  # some touch
    assert run.replies["write"].value in {"0.0", "np.float32(0.0)"}
    assert run.where() in run.shown("filter")
    assert run.figures() == 1


def test_the_dataframes_are_those_of_pandas(start):
    run = start("dataframes")
    run.until("fallbacks")
    expected = """
all_trips = pd.read_parquet(trips_folder)
hours = all_trips.tpep_pickup_datetime.dt.hour
expected = (all_trips.tip_amount / all_trips.fare_amount).groupby(hours.rename("hour")).mean().rename("tip")
pd.testing.assert_series_equal(by_hour, expected, check_index_type=False, check_dtype=False)
all_zones = pd.read_parquet(Path(folder.name) / "zones.parquet")
merged = all_trips.merge(all_zones, left_on="PULocationID", right_on="LocationID")
expected = merged.groupby("Borough").agg({"fare_amount": "sum", "trip_distance": "mean"})
pd.testing.assert_frame_equal(by_borough.sort_index(), expected, check_index_type=False, check_dtype=False)
assert (summary.loc["count"] == 4 * rides).all()
expected = all_trips[["trip_distance", "fare_amount"]].mean()
pd.testing.assert_series_equal(summary.loc["mean"], expected, check_names=False)
"""
    run.kernel.ok(expected, timeout=300)
    assert run.value("rides") == (5_000_000 if run.on_gpus else 100_000)
    assert run.figures() == 1


def test_functions_of_the_user_run_on_the_workers(start):
    run = start("your-own-functions")
    run.until("print")
    rows, columns = run.value("mandelbrot.shape")
    assert (rows, columns) == (500, 600)
    run.kernel.ok("y, x = np.linspace(-1.2, 1.2, 500), np.linspace(-2.1, 0.7, 600)")
    assert run.value("float((steps(x + 1j * y[:, None]) == mandelbrot).mean())") > 0.999
    assert run.value("means.to_dict()") == {"Bergen": -0.5, "Graz": 0.5}
    assert run.value("float(np.mean(estimates))") == pytest.approx(3.14, abs=0.02)
    assert run.value("{int(n): bool(e < 1) for n, e in errors.items()}") == {10**k: True for k in range(2, 7)}
    assert "'rate': 0.1," in run.replies["resources"].value
    assert run.figures() == 1
    wait_until(lambda: "Hello from a worker" in run.kernel.ok("%gpudask logs --lines 5").value, 60)


def test_the_profile_shows_small_chunks_and_the_status_what_was_spilled(start):
    run = start("why-is-it-slow")
    run.until("large-chunks")
    small, large = ("\n".join(run.replies[name].displayed) for name in ("small-chunks", "large-chunks"))
    assert re.search(r" 225 +312 KiB", small)
    assert re.search(r'chunks="auto" would make \d\b', small)
    assert re.search(r" 4 +17\.2 MiB", large)
    assert 'chunks="auto"' not in large
    assert run.value("small_seconds > 1.5 * large_seconds")
    run.until("spilled")
    calls = [re.search(r"^smooth +(\d+)", run.shown(name), re.MULTILINE)[1] for name in ("twice", "once")]
    assert calls == ["18", "9"]
    assert run.replies["twice"].value == run.replies["once"].value
    assert run.figures() == 1
    assert number(run.replies["spill"].value) == pytest.approx(0.5, abs=1e-3)
    assert run.value(f"status.state.workers[0].spilled_to_{'host' if run.on_gpus else 'disk'}") > 0
    assert re.search(r"^(Worker|GPU) 0 .*[\d.]+ [MG]iB +[\d.]+ [MG]iB +\d", run.shown("spilled"), re.MULTILINE)
    run.until("release")
    assert "The workers hold no results." in run.replies["release"].value


def test_the_commands_that_watch_say_what_there_is(start):
    run = start("watching-the-gpus")
    run.until("logs")
    assert run.value("held.total") == pytest.approx(8 * 5_000**2, abs=100)  # a sum may be released a moment later
    assert "Deleted: x." in run.replies["release"].value
    assert re.fullmatch(r"\[\d+\]", run.replies["values"].value)
    assert run.on_gpus or "This machine has no NVIDIA driver." in run.shown("gpus")
    assert run.on_gpus or "1 problem found" in run.shown("doctor")
    assert re.search(r"The kernel and (1 worker|\d+ workers) have the same versions\.", run.shown("doctor"))
    wait_until(lambda: "Hello, GPU" in run.kernel.ok("%gpudask logs --lines 3").value, 60)


def test_a_cluster_of_several_machines_is_used_and_ended(start):
    run = start("many-machines")
    try:
        run.until("end")
    finally:
        run.kernel.run("for process in globals().get('processes', []): process.kill()")
    assert "Connected to 1 worker at tls://127.0.0.1:" in run.shown("connect")
    assert run.value("float(mean)") == pytest.approx(0.5, abs=1e-3)
    assert run.value("hosts.tolist() == [platform.node()] * 8")
    assert run.value("[process.poll() is None for process in processes]") == [False, False]


def test_xgboost_finds_what_the_data_were_made_of(start):
    run = start("xgboost")
    needs(run, "xgboost")
    if run.on_gpus and not run.value("__import__('xgboost').build_info()['USE_CUDA']"):
        pytest.skip("needs XGBoost with CUDA")
    run.until("figure")
    assert all(run.where() in run.shown(name) for name in ("train", "predict", "explain"))
    shown = [run.shown(name) for name in ("train", "predict", "explain")]
    assert [text for text in shown if "on the CPU:" in text] == []
    assert run.value("device") == ("cuda" if run.on_gpus else "cpu")
    assert 1 < run.value("error") < 1.3  # the noise has a standard deviation of 1
    assert run.value("list(importance.index)") == ["passengers", "rain", "hour", "miles"]
    assert run.value("float(importance['passengers'])") < 0.05
    # The SHAP values of a prediction sum to it.
    assert run.value("float(abs(contributions.to_numpy().sum(axis=1) - predicted.to_numpy()).max())") < 1e-3
    assert run.figures() == 1


def test_queries_of_polars_run_on_the_cluster_or_stream_on_the_cpu(start):
    run = start("polars")
    needs(run, *(["cudf_polars"] if run.on_gpus else ["polars"]))
    run.until("dask")
    where = "Polars on 1 ×|Polars on \\d+ ×" if run.on_gpus else "Polars on the CPU of the kernel"
    for name in ("query", "together", "lacking"):
        assert re.search(where, run.shown(name)), name
    assert ("a Python function (line 4)" in run.shown("lacking")) == run.on_gpus
    assert run.value("zones['trips'].sum() == 8 * rows, zones['zone'].to_list() == list(range(50))") == (True, True)
    assert run.value("zones['paid'].to_list()") == pytest.approx([3.25] * 50, abs=0.05)  # 3 and 2.5 for each of 4 miles
    assert run.value("pl.read_parquet(folder / 'long').height") == run.value(
        "trips.filter(pl.col('miles') > 5).select(pl.len()).collect().item()"
    )
    assert (run.replies["compare"].error == "UsageError") != run.on_gpus
    assert not re.search(r"^\w+ +NO", run.shown("compare"), re.MULTILINE)
    paid = run.value("trips.select(pl.col('paid').sum()).collect().item()")
    assert ast.literal_eval(run.replies["dask"].value) == pytest.approx((8 * run.value("rows"), paid))


def test_the_search_and_the_clusters_are_right_and_each_model_is_that_of_its_quantile(start):
    run = start("scikit-learn")
    if run.on_gpus:
        needs(run, "cuml.dask.cluster")
    run.until("clusters-figure")
    assert run.value("search.best_params_") == {"C": 10, "gamma": 0.001}
    # The same search in the kernel, without the cluster.
    run.kernel.ok("local = search.fit(images, digits).cv_results_['mean_test_score']", timeout=300)
    assert run.value("float(abs(local.reshape(3, 3) - scores).max())") < 1e-9
    assert run.where() in run.shown("clusters")
    # Each cluster is a cloud; the widest one overlaps with its neighbour.
    run.kernel.ok("where = np.asarray(dask.compute(clouds)[0].tolist())")
    run.kernel.ok("counts = np.array([np.bincount(clusters[where == cloud], minlength=3) for cloud in range(3)])")
    assert run.value("float((counts.max(axis=1) / counts.sum(axis=1)).min())") > 0.95
    assert run.value("sorted(counts.argmax(axis=1).tolist())") == [0, 1, 2]
    assert run.value("points, plane.shape == (points, 2)") == (3_000_000 if run.on_gpus else 30_000, True)
    assert run.value("float(components.explained_variance_ratio_[0])") == pytest.approx(0.71, abs=0.01)
    assert run.figures() == 2
    run.until("map-figure")
    assert (run.where() in run.shown("forest")) == run.on_gpus  # on the CPU it is not a Dask computation
    assert 0.97 < run.value("float(accuracy)") <= 1
    assert run.where() in run.shown("map")
    # Points that are neighbours on the map are neighbours on the sheet, and not on the next turn of the roll.
    run.kernel.ok("from sklearn.neighbors import KNeighborsRegressor\nfew = np.arange(4_000)")
    run.kernel.ok("model = KNeighborsRegressor().fit(rolled_out[few[::2]], turns[few[::2]])", timeout=300)
    assert run.value("float(model.score(rolled_out[few[1::2]], turns[few[1::2]]))") > 0.95
    assert run.figures() == 3
    needs(run, "lightgbm")
    run.until("models-figure")
    assert run.value("below") == pytest.approx([0.05, 0.5, 0.95], abs=0.01)
    assert run.value("bool((lower < upper).all())")
    assert run.figures() == 4


def test_without_pytorch_its_notebook_says_what_to_install_before_it_starts_a_cluster():
    first = next(cell for cell in read(ROOT / "binder" / "pytorch.ipynb").cells if cell.cell_type == "code")
    kernel = Kernel(without_gpus())
    try:
        kernel.ok("import sys\nsys.modules['torch'] = None")  # as if it were not installed
        reply = kernel.run(first.source)
    finally:
        kernel.shutdown()
    assert reply.error_value == "No module named 'torch'. Type %pip install torch, and run this cell again."


def test_pytorch_learns_on_the_workers_and_scores_blocks(start):
    run = start("pytorch")
    needs(run, "torch")
    run.until("score-figure")
    last = run.value("{rate: losses[-1] for rate, (_, losses) in trained.items()}")
    assert last[0.0003] > last[0.003] > last[0.03]
    assert last[0.03] < 0.05
    assert run.where() in run.shown("score")
    assert "on the CPU:" not in run.shown("score")
    assert run.value("type(scores).__module__, scores.shape, scores.dtype.name") == ("numpy", (400, 400), "float32")
    # At the points of the training data the scores are their classes.
    run.kernel.ok("rows, columns = ((x[:, ::-1].T + 1.2) / 2.4 * 399).round().astype(int)")
    assert run.value("float(((scores[rows, columns] > 0.5) == y).mean())") > 0.98
    if run.on_gpus:
        backends = run.value("[*client.run(lambda: __import__('torch').cuda.get_allocator_backend()).values()]")
        assert set(backends) == {"pluggable"}
    assert run.figures() == 2
    needs(run, "skorch")
    run.until("search")
    assert run.value("search.best_params_") == {"lr": 0.01}
