"""Arithmetic with booleans and small integers gives what pandas gives. Here cuDF is a subclass of pandas."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from cudf_stand_in import FRAME, on_both

from jupyter_gpudask.inspection.placement import to_gpu
from jupyter_gpudask.patches.frames.as_pandas import replaced

pytestmark = pytest.mark.usefixtures("cudf_stand_in")


def flags(frame):
    return frame.k > 3


def small(frame):
    return frame.k.astype("int32") + 2**24


@pytest.mark.parametrize(
    "compute",
    [
        lambda frame: flags(frame) - 0.5,
        lambda frame: 0.5 * flags(frame),
        lambda frame: flags(frame) + 127,
        lambda frame: flags(frame) + np.float32(0.25),
        lambda frame: flags(frame) - flags(frame).mean(),
        lambda frame: flags(frame).astype("boolean") * 0.5,
        lambda frame: flags(frame).sub(0.5),
        lambda frame: flags(frame) < 0.5,
        lambda frame: flags(frame).between(0.2, 0.8),
        lambda frame: np.multiply(flags(frame), 0.5),
        lambda frame: np.less(flags(frame), 0.5),
        lambda frame: flags(frame) / 3,
        lambda frame: small(frame) / 1,
        lambda frame: 1 / small(frame),
        lambda frame: small(frame) / (frame.k.astype("int16") + 1),
        lambda frame: small(frame).div(3),
        lambda frame: np.divide(small(frame), 3),
        lambda frame: flags(frame) == True,  # noqa: E712
        lambda frame: frame.k * 0.5,
        lambda frame: frame.k / 3,
    ],
)
def test_booleans_and_small_integers_are_numbers_as_in_pandas(compute):
    expected, result = on_both(compute)
    np.testing.assert_array_equal(np.asarray(result, dtype=float), np.asarray(expected, dtype=float))


def test_the_columns_of_a_dataframe_are_converted_one_by_one():
    expected, result = on_both(lambda frame: frame[["k", "x"]].assign(p=frame.k > 3) * 0.5)
    pd.testing.assert_frame_equal(pd.DataFrame(result).astype(float), expected)


def test_other_arithmetic_keeps_its_expression():
    series = dd.from_pandas(FRAME.k, npartitions=3)
    on_gpu = to_gpu(series)
    for result in (on_gpu + 1, on_gpu / 2, on_gpu * on_gpu):
        assert replaced(result.expr) is result.expr
    frame = to_gpu(dd.from_pandas(FRAME[["k", "x"]], npartitions=3))
    assert type((frame * 2).expr).__name__ == "Mul"
    assert type(((frame > 2) * 2).expr).__name__ == "MulAsPandas"
