"""Persisted dataframes of the same files have the partitions that stock Dask gives them, and all of them."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client
from distributed.client import futures_of
from helpers import client_of

pytestmark = pytest.mark.cluster

COLUMNS = ["a", "b", "c"]


@pytest.fixture(scope="module", autouse=True)
def client():
    with client_of({"engine": "cpu", "workers": 1, "threads": 2}) as client:
        yield client


@pytest.fixture(scope="module")
def frames(tmp_path_factory):
    """Three columns, and one, of three files with four columns; and what pandas reads."""
    folder = tmp_path_factory.mktemp("files")
    random = np.random.default_rng(0)
    for index in range(3):
        numbers = {name: random.random(1000) for name in COLUMNS}
        rows = range(1000 * index, 1000 * index + 1000)
        pd.DataFrame({**numbers, "y": random.integers(0, 5, 1000)}, rows).to_parquet(folder / f"{index}.parquet")
    read, expected = dd.read_parquet(folder), pd.read_parquet(folder)
    return read[COLUMNS], read["y"], expected[COLUMNS], expected["y"]


def assert_complete(collection, expected):
    assert collection.npartitions == len(collection.divisions) - 1 == len(futures_of(collection))
    assert collection.compute().equals(expected)


@pytest.mark.parametrize("how", ["dask.persist", "client.persist"])
def test_what_is_persisted_together_has_the_partitions_of_stock_dask(client, frames, how):
    x, y, *expected = frames
    persisted = dask.persist(x, y) if how == "dask.persist" else client.persist([x, y])
    of_stock = Client.persist(client, [x, y])
    for ours, stock, values in zip(persisted, of_stock, expected, strict=True):
        assert ours.npartitions == stock.npartitions == 3
        assert ours.divisions == stock.divisions
        assert_complete(ours, values)


def test_what_is_persisted_alone_has_all_rows(client, frames):
    x, y, *expected = frames
    for alone, values in ((x, expected[0]), (y, expected[1])):
        assert_complete(alone.persist(), values)
        assert_complete(client.persist(alone), values)
        assert_complete(dask.persist(alone)[0], values)


def test_what_the_optimizer_divides_otherwise_has_all_rows_beside_others(frames):
    _, y, *expected = frames
    distinct, column, total = dask.persist(y.drop_duplicates(), y, y.sum())
    assert_complete(column, expected[1])
    assert sorted(distinct.compute()) == sorted(expected[1].unique())
    assert total.compute() == expected[1].sum()


@pytest.mark.filterwarnings("ignore:Computing mixed collections:UserWarning")
def test_dataframes_have_all_rows_beside_arrays_and_delayed_objects(frames):
    x, y, *expected = frames
    array, first, second, value = dask.persist(da.arange(10, chunks=5), x, y, dask.delayed(sum)([1, 2]))
    assert_complete(first, expected[0])
    assert_complete(second, expected[1])
    assert array.compute().tolist() == list(range(10))
    assert value.compute() == 3
