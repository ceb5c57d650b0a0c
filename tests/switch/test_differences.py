"""What differs on GPUs: each statement of docs/differences.toml, with Dask on the CPU and in a cell.

A value that has become that of the CPU is good news: the statement can go.
"""

import re
import tomllib
import warnings
import zlib
from pathlib import Path

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from cudf_stand_in import gpu_cell, in_use
from device import HAS_GPU

from jupyter_gpudask.overlay import CellRecord
from jupyter_gpudask.switch.context import switched_to

ROOT = Path(__file__).parents[2]
TABLE = tomllib.loads((ROOT / "docs" / "differences.toml").read_text())["row"]
PARTS = [(f"{row['what']} {number}", part) for row in TABLE for number, part in enumerate(row["part"], 1)]

pytestmark = pytest.mark.filterwarnings("ignore")


def parts(choose):
    """The statements for a test, with the row as its name."""
    found = [pytest.param(part, id=name) for name, part in PARTS if choose(part)]
    return pytest.mark.parametrize("part", found)


rng = np.random.default_rng


def frame(npartitions=1, index=None, **columns):
    return dd.from_pandas(pd.DataFrame(columns, index=index), npartitions=npartitions, sort=False)


def bits(array):
    """A number that is another one if any digit is."""
    return zlib.crc32(np.ascontiguousarray(array).tobytes())


def warned(compute):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RuntimeWarning)
        compute()
    return [str(each.message) for each in caught if each.category is RuntimeWarning]


def value(code, folder):
    """What an expression gives, as a text, or the name of the error that it raises."""

    (folder / "numbers.csv").write_text("x\n" + "\n".join(map(repr, rng(1).random(100_000).tolist())))
    (folder / "quoted.json").write_text('{"x": "1"}\n{"x": "2"}\n')
    names = {"da": da, "dd": dd, "np": np, "pd": pd, "rng": rng, "inf": np.inf, "nan": np.nan}
    names |= {"frame": frame, "bits": bits, "warned": warned, "folder": str(folder)}
    with dask.config.set(scheduler="sync"):
        try:
            return repr(eval(code.strip(), names))  # noqa: S307 - of the table
        except Exception as error:  # noqa: BLE001 - it is the outcome
            return type(error).__name__


@parts(lambda part: "cpu" in part)
def test_dask_on_the_cpu_has_what_is_said(part, tmp_path):
    assert value(part["code"], tmp_path) == part["cpu"]


@parts(lambda part: "here" in part)
@pytest.mark.skipif(HAS_GPU, reason="the stand-ins are for machines without a GPU")
def test_a_cell_has_what_is_said_with_stand_ins(part, tmp_path):
    with in_use(), gpu_cell(array="cupy", fallback="host", results="host"):
        assert value(part["code"], tmp_path) == part["gpu"]


@pytest.mark.gpu
@parts(lambda part: "code" in part and "both" not in part)
def test_a_cell_has_what_is_said(part, tmp_path):
    pytest.importorskip("cudf", reason="needs cuDF and a GPU")
    on_cpu = value(part["code"], tmp_path)
    with switched_to("cupy", "cudf", CellRecord(fallback="host", results="host")):
        found = value(part["code"], tmp_path)
    assert found != on_cpu
    assert found == part.get("gpu", found)


def test_each_statement_is_proved_by_one_thing_that_exists():
    for name, part in PARTS:
        assert len(part.keys() & {"code", "test", "seen"}) == 1, name
        if "seen" in part:
            assert (ROOT / "benchmarks" / "results" / part["seen"]).exists(), name
        if "test" in part:
            path, _, function = part["test"].partition("::")
            assert re.search(rf"^def {function}\(", (ROOT / "tests" / path).read_text(), re.MULTILINE), name
