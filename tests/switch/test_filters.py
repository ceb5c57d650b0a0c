"""SciPy's filters of images: in a GPU cell on the GPU where CuPy has them, with the results of the CPU."""

import dask
import dask.array as da
import device
import numpy as np
import pytest

from jupyter_gpudask.fallback.log import fallback_log
from jupyter_gpudask.overlay import CellRecord
from jupyter_gpudask.switch.context import switched_to

ndimage = pytest.importorskip("scipy.ndimage")
pytestmark = device.MARKS

IMAGE = np.random.default_rng(0).normal(100, 20, (40, 50)).round()
WEIGHTS = np.array([[0.0, 1, 0], [1, -4, 1], [0, 2, 0]])
_NUMBERS = {
    "convolve": {"weights": WEIGHTS},
    "correlate": {"weights": WEIGHTS},
    "gaussian_filter": {"sigma": 2},
    "gaussian_gradient_magnitude": {"sigma": 2},
    "gaussian_laplace": {"sigma": 2},
    "laplace": {},
    "maximum_filter": {"size": 3},
    "median_filter": {"size": 5},
    "minimum_filter": {"size": 3},
    "percentile_filter": {"percentile": 30, "size": 3},
    "prewitt": {},
    "rank_filter": {"rank": 2, "size": 3},
    "rotate": {"angle": 20, "reshape": False},
    "shift": {"shift": 1.5},
    "sobel": {},
    "spline_filter": {},
    "uniform_filter": {"size": 4},
    **{f"grey_{name}": {"size": 3} for name in ("closing", "dilation", "erosion", "opening")},
    **{
        name: {"size": 3}
        for name in ("black_tophat", "morphological_gradient", "morphological_laplace", "white_tophat")
    },
}
_MASKS = {
    **{f"binary_{name}": {} for name in ("closing", "dilation", "erosion", "fill_holes", "opening", "propagation")}
}
_ON_HOST = {
    "affine_transform": {"matrix": [[0.9, 0.1], [0, 1.1]]},
    "gaussian_filter1d": {"sigma": 2},
    "generic_filter": {"function": np.ptp, "size": 3},
    "distance_transform_edt": {},
    "distance_transform_cdt": {},
}


def in_cell(compute):
    before = fallback_log.blocks.copy()
    with switched_to("cupy", "numpy", CellRecord(fallback="host", results="host")), dask.config.set(scheduler="sync"):
        return compute(), fallback_log.blocks - before


@pytest.mark.parametrize("name", [*_NUMBERS, *_MASKS, *_ON_HOST])
def test_functions_of_scipy_have_the_results_of_the_cpu(name):
    options = (_NUMBERS | _MASKS | _ON_HOST)[name]

    def result():
        image = da.from_array(IMAGE, chunks=(40, 50))
        image = (
            image
            if name in _NUMBERS or name in ("affine_transform", "gaussian_filter1d", "generic_filter")
            else image > 100
        )
        return image.map_blocks(getattr(ndimage, name), **options).compute()

    expected, (found, log) = result(), in_cell(result)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    if device.HAS_GPU:  # the stand-in has none of them
        assert bool(log) == (name in _ON_HOST)


def label(block):
    return np.concatenate([ndimage.label(part)[0][None] for part in block])


def areas(block):
    measure = pytest.importorskip("skimage.measure")
    table = measure.regionprops_table(np.asarray(block)[0].astype(int), properties=("area", "centroid"))
    return np.array([[[table["area"].sum(), table["centroid-0"].mean()]]])


def test_labels_and_properties_of_regions_are_those_of_the_cpu():
    def results():
        mask = da.from_array(np.stack([IMAGE, IMAGE.T[:40, :40].repeat(2, 1)[:, :50]]) > 110, chunks=(1, 40, 50))
        labels = mask.map_blocks(label, dtype="int32")
        properties = labels.map_blocks(areas, dtype=float, chunks=(1, 1, 2))
        return dask.compute(labels, properties)

    expected, (found, _) = results(), in_cell(results)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other)
