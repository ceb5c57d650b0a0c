"""Functions of dask-ml and dask-image on arrays on GPUs."""

import sys
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace

import dask
import dask.array as da
import device
import numpy as np
import pytest
from scipy import ndimage

from jupyter_gpudask.inspection.placement import place_of
from jupyter_gpudask.overlay import CellRecord
from jupyter_gpudask.switch.context import switched_to

pytestmark = device.MARKS

NUMBERS = np.random.default_rng(0).normal(size=(200, 3))
LABELS = (NUMBERS.sum(axis=1) > 0).astype(int)


def in_cell(compute):
    with switched_to("cupy", "pandas", CellRecord(fallback="host", results="host")), dask.config.set(scheduler="sync"):
        return compute()


def test_estimators_predict_for_arrays_on_gpus():
    wrappers = pytest.importorskip("dask_ml.wrappers")
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    model = wrappers.ParallelPostFit(LogisticRegression(), scoring="accuracy").fit(NUMBERS, LABELS)
    scaler = wrappers.ParallelPostFit(StandardScaler()).fit(NUMBERS)

    def results():
        x, y = da.from_array(NUMBERS, chunks=(50, 3)), da.from_array(LABELS, chunks=50)
        arrays = [model.predict(x), model.predict_proba(x), scaler.transform(x)]
        return {place_of(array) for array in arrays}, [*dask.compute(*arrays), model.score(x, y)]

    (_, expected), (places, found) = results(), in_cell(results)
    assert places == {"gpu"}
    for array, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(array, wanted)


@pytest.fixture
def images(tmp_path):
    """The values of three TIFF files, and the folder that has them."""
    tifffile = pytest.importorskip("tifffile")
    values = np.arange(3 * 4 * 5, dtype="uint16").reshape(3, 4, 5)
    for number, image in enumerate(values):
        tifffile.imwrite(tmp_path / f"{number}.tif", image)
    return values, tmp_path


def read_by_dask(folder):
    from dask.array.image import imread
    from tifffile import imread as read

    return imread(f"{folder}/*.tif", imread=read)


def read_by_dask_image(folder):
    return pytest.importorskip("dask_image.imread").imread(f"{folder}/*.tif")


def read_by_names(folder):
    from tifffile import imread

    names = da.from_array(sorted(map(str, folder.glob("*.tif"))), chunks=1)
    meta = np.empty((0, 0, 0), "uint16")
    return names.map_blocks(lambda name: imread(name[0])[None], new_axis=[1, 2], chunks=(1, 4, 5), meta=meta)


def read_by_places(folder):
    from tifffile import imread

    def read(block_id=None):
        return imread(folder / f"{block_id[0]}.tif")[None]

    return da.map_blocks(read, chunks=((1, 1, 1), (4,), (5,)), meta=np.empty((0, 0, 0), "uint16"))


@pytest.mark.filterwarnings("ignore:.*use .imageio. or other I/O packages directly:FutureWarning")
@pytest.mark.parametrize("read", [read_by_dask, read_by_dask_image, read_by_names, read_by_places])
def test_images_that_a_cell_reads_are_on_the_gpu(images, read):
    values, folder = images

    def results():
        stack = read(folder)
        return place_of(stack), (stack + 1).compute()

    (_, expected), (place, found) = results(), in_cell(results)
    assert place == "gpu"
    np.testing.assert_array_equal(found, values + 1)
    np.testing.assert_array_equal(expected, values + 1)


def test_datasets_that_delayed_functions_open_are_on_the_gpu(tmp_path):
    xr = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    file = tmp_path / "data.nc"
    xr.Dataset({"x": ("t", NUMBERS[:, 0]), "names": ("t", LABELS.astype(str))}).to_netcdf(file, engine="h5netcdf")

    def results():
        data = xr.open_mfdataset([file], parallel=True, chunks={"t": 50}, engine="h5netcdf")
        return place_of(data.x.data), data.x.mean().compute()

    (_, expected), (place, found) = results(), in_cell(results)
    assert place == "gpu"
    np.testing.assert_allclose(found, expected)


def test_the_accessor_of_cupy_xarray_works_beside_a_cell():
    pytest.importorskip("cupy_xarray")
    xr = pytest.importorskip("xarray")

    def results():
        on_cpu = xr.DataArray(da.from_array(NUMBERS, chunks=(50, 3)).to_backend("numpy"), dims=("t", "x"))
        moved = on_cpu.cupy.as_cupy()
        values = [array.mean("t").to_numpy() for array in (on_cpu, moved, moved.cupy.as_numpy())]
        return (on_cpu.cupy.is_cupy, moved.cupy.is_cupy, place_of((moved + 1).data)), values

    kinds, values = in_cell(results)
    assert kinds == (False, True, "gpu")
    np.testing.assert_allclose(values, [NUMBERS.mean(axis=0)] * 3)


def test_ufuncs_of_xarray_run_in_the_three_modes():
    xr = pytest.importorskip("xarray")

    def results():
        x = xr.DataArray(da.from_array(NUMBERS, chunks=(50, 3)), dims=("t", "x"))
        with pytest.raises(ValueError, match="chunked array"):
            xr.apply_ufunc(np.square, x)
        loaded = xr.apply_ufunc(np.square, x.compute())
        rows = [xr.apply_ufunc(np.square, x, dask=mode, output_dtypes=[float]) for mode in ("allowed", "parallelized")]
        centred = xr.apply_ufunc(
            lambda row: row - row.mean(axis=-1, keepdims=True),
            x,
            input_core_dims=[["x"]],
            output_core_dims=[["x"]],
            dask="parallelized",
            output_dtypes=[float],
        )
        return {place_of(row.data) for row in (*rows, centred)}, [each.to_numpy() for each in (loaded, *rows, centred)]

    (_, expected), (places, found) = results(), in_cell(results)
    assert places == {"gpu"}
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_weights_of_an_image_are_where_it_is(monkeypatch):
    filters = pytest.importorskip("dask_image.ndfilters")
    if not device.HAS_GPU:  # there is no stand-in for CuPy's functions of SciPy
        from scipy import ndimage

        def of_cupy(name):
            return lambda image, weights, **options: device.cupy.asarray(
                getattr(ndimage, name)(image.get(), weights.get(), **options)
            )

        functions = SimpleNamespace(**{name: of_cupy(name) for name in ("convolve", "correlate")})
        scipy, cupyx = ModuleType("cupyx.scipy"), ModuleType("cupyx")
        cupyx.scipy, scipy.ndimage = scipy, functions
        cupyx.errstate = lambda **_: nullcontext()
        for name, module in {"cupyx": cupyx, "cupyx.scipy": scipy, "cupyx.scipy.ndimage": functions}.items():
            monkeypatch.setitem(sys.modules, name, module)

    def results():
        image = da.from_array(NUMBERS, chunks=(50, 3))
        weights = np.array([[0.0, 1, 0], [1, -4, 1], [0, 2, 0]])
        arrays = [filters.convolve(image, weights), filters.correlate(image, weights)]
        return {place_of(array) for array in arrays}, dask.compute(*arrays)

    (_, expected), (places, found) = results(), in_cell(results)
    assert places == {"gpu"}
    np.testing.assert_allclose(found, expected)


def test_a_search_of_dask_ml_falls_back_to_the_host():
    search = pytest.importorskip("dask_ml.model_selection")
    from distributed import LocalCluster
    from sklearn.svm import SVC

    from jupyter_gpudask.client.kernel_client import KernelClient

    def best():
        x, y = da.from_array(NUMBERS, chunks=(50, 3)), da.from_array(LABELS, chunks=50)
        return search.GridSearchCV(SVC(), {"C": [0.01, 1.0]}, cv=2).fit(x, y).best_params_

    with (
        LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster,
        KernelClient(cluster),
    ):
        expected = best()
        with switched_to("cupy", "pandas", CellRecord(fallback="host", results="host")):
            assert best() == expected


IMAGE = np.zeros((12, 12), "uint8")
IMAGE[1:3, 2:8] = IMAGE[6:9, 5:7] = IMAGE[10:, :4] = 1


def number_of_objects(block):
    return np.array([[len(ndimage.find_objects(block))]])


@pytest.mark.parametrize("chunks", [12, 5])
@pytest.mark.parametrize(
    "compute",
    [
        lambda labels: labels.map_blocks(number_of_objects, chunks=(1, 1), dtype=int),
        dask.delayed(ndimage.find_objects),
        lambda labels: pytest.importorskip("dask_image.ndmeasure").find_objects(labels),
    ],
    ids=["map_blocks", "delayed", "dask-image"],
)
def test_objects_of_an_image_are_found(compute, chunks):
    labels = np.cumsum(IMAGE.any(axis=1) & ~np.roll(IMAGE.any(axis=1), 1))[:, None] * IMAGE

    def found():
        return compute(da.from_array(labels, chunks=chunks)).compute()

    assert repr(in_cell(found)) == repr(found())
