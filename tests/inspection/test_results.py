"""Results come to the host with all that they consist of."""

from collections import Counter, OrderedDict, defaultdict
from dataclasses import dataclass, field
from datetime import date

import numpy as np
import pandas as pd
import pytest

from jupyter_gpudask.inspection.results import results_to_host


class Scalar:
    """Stands for an array of CuPy without dimensions."""

    def __init__(self, value=1):
        self.value = value

    def get(self):
        return np.int64(self.value)


Scalar.__module__ = "cupyx.scipy.sparse._csr"


@dataclass(frozen=True)
class Fit:
    slope: object
    others: object = ()
    later: object = field(init=False, default=None)


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (OrderedDict(b=Scalar(), a=[Scalar(2)]), OrderedDict(b=1, a=[2])),
        (defaultdict(list, a=Scalar()), defaultdict(list, a=1)),
        (Counter(a=Scalar(3)), Counter(a=3)),
        (Fit(Scalar(), {"x": (Scalar(2),)}), Fit(1, {"x": (2,)})),
        ([Fit(Fit(Scalar()))], [Fit(Fit(1))]),
    ],
)
def test_values_of_dictionaries_and_dataclasses_are_moved(result, expected):
    moved = results_to_host(result)
    assert (moved, type(moved)) == (expected, type(expected))
    assert moved != result


def test_a_default_factory_is_kept():
    assert results_to_host(defaultdict(list, a=Scalar()))["b"] == []


def test_columns_of_numbers_have_their_dtype():
    frame = pd.DataFrame({"a": [Scalar(), Scalar(2)], "b": ["x", "y"]}, index=[3, 5])
    frame.insert(1, "a", [Scalar(7), None], allow_duplicates=True)
    expected = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}, index=[3, 5])
    expected.insert(1, "a", [np.int64(7), None], allow_duplicates=True)
    moved = results_to_host(frame)
    assert moved.iloc[:, 0].dtype == np.int64
    pd.testing.assert_frame_equal(moved, expected, check_dtype=False)
    assert type(frame.iloc[0, 0]) is Scalar
    pd.testing.assert_series_equal(
        results_to_host(pd.Series([Scalar(), Scalar(2)], index=list("ab"), name="s")),
        pd.Series([1, 2], index=list("ab"), name="s"),
    )


@pytest.mark.parametrize(
    "result",
    [
        [1, ("a", {"b": 2})],
        OrderedDict(a=1),
        Fit(1.5),
        Fit,
        {1, 2},
        pd.DataFrame({"a": [1, 2], "b": pd.Series(["x", None], dtype=object), "c": [date(2024, 1, 1)] * 2}),
        pd.Series(["a", "b"], dtype=object),
        np.array(["a", None], dtype=object),
    ],
)
def test_a_result_without_parts_on_the_gpu_is_the_same_object(result):
    assert results_to_host(result) is result


def test_the_arrays_of_xarray_are_moved_with_their_coordinates():
    xarray = pytest.importorskip("xarray")
    cupy = pytest.importorskip("cupy")
    array = xarray.DataArray(cupy.ones(2), dims="x", coords={"y": ("x", cupy.zeros(2))})
    moved = results_to_host({"array": array, "dataset": array.to_dataset(name="a"), "variable": array.variable})
    assert type(moved["array"].data) is type(moved["array"].y.data) is np.ndarray
    assert type(moved["dataset"].a.data) is type(moved["variable"].data) is np.ndarray
    on_host = array.as_numpy()
    assert results_to_host(on_host) is on_host
