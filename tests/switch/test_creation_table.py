"""The table of where collections are created, in docs/what-runs-where.md, names every creation function of Dask."""

import inspect
import re
from pathlib import Path
from types import FunctionType

import dask.array as da
import dask.array.creation
import dask.dataframe as dd
from test_arrays import ARRAYS

DOCS = Path(__file__).parents[2] / "docs" / "what-runs-where.md"

# First parameters that are an array, or arrays: such a function computes from them.
GIVEN = set(
    "*args *arys *operands A a ar ar1 arr arr1 array array_like arrays ary condition condlist darray element f indices "
    "lhs m multi_index sample seq tup v values x".split()
)
# What these call is the user's.
CALLERS = set(
    "apply_gufunc apply_along_axis apply_over_axes as_gufunc blockwise frompyfunc map_blocks map_overlap".split()
)
NO_CREATION = set("array_expr_enabled coarsen optimize register_chunk_type store to_hdf5 to_npy_stack".split())


def row(kind):
    """Names in the three columns of a row."""
    (line,) = re.findall(rf"^\| {kind} \|(.*)\|$", DOCS.read_text(), re.MULTILINE)
    return [set(re.findall(r"`(?:d[ad]\.)?([\w.]+)`", column)) for column in line.split("|")]


def first_parameter(function):
    return str(next(iter(inspect.signature(function).parameters.values()), "")).split("=")[0].split(":")[0]


def array_functions():
    return {name: getattr(da, name) for name in da.__all__ if isinstance(getattr(da, name), FunctionType)}


def test_every_function_that_may_create_an_array_is_in_the_table():
    may_create = {name for name, function in array_functions().items() if first_parameter(function) not in GIVEN}
    of_its_module = {
        name
        for name, function in vars(dask.array.creation).items()
        if getattr(function, "__module__", "") == "dask.array.creation" and name in da.__all__
    }
    of_the_name = {name for name in array_functions() if re.match("from|as.*array", name)}
    by_wrapping = {"ones", "zeros", "empty", "full", *(f"{name}_like" for name in ("ones", "zeros", "empty", "full"))}
    expected = (may_create | of_its_module | of_the_name | by_wrapping) - NO_CREATION - CALLERS
    assert expected <= set().union(*row("arrays"))


def test_every_function_that_may_create_a_frame_is_in_the_table():
    expected = {name for name in dd.__all__ if re.match("from_|read_|concat|repartition", name)}
    assert expected == set().union(*row("dataframes"))


def test_whatever_the_table_promises_is_tried():
    by_dask, by_us, _ = row("arrays")
    assert by_dask | by_us <= set(ARRAYS)
