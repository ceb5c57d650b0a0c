"""The kernel's client has its graphs of arrays optimized where they are materialized."""

import dask
import dask.array as da
import numpy as np
import pytest
from dask.distributed import wait
from helpers import client_of

pytestmark = pytest.mark.cluster

OPTIONS = {"on the CPU": {"engine": "cpu", "workers": 1, "threads": 2}, "on GPUs": {"gpus": 2}}


@pytest.fixture(scope="module", params=OPTIONS.values(), ids=OPTIONS)
def client(request):
    with client_of(request.param) as client:
        yield client


def tasks_of(client, compute):
    client.wait_until_counted(20)
    before = client.tasks_submitted
    result = compute()
    client.wait_until_counted(20)
    return client.tasks_submitted - before, result


def numbers():
    return da.random.RandomState(1).random_sample((240, 240), chunks=20)


def test_a_reduction_of_many_blocks_is_few_tasks_with_the_same_result(client):
    expected = numbers().std().compute(scheduler="sync")
    few, result = tasks_of(client, lambda: numbers().std().compute())
    assert result == expected
    client.optimizes = False
    many, result = tasks_of(client, lambda: numbers().std().compute())
    client.optimizes = True
    assert result == expected
    assert many > 144
    assert few < 40
    with dask.config.set({"optimization.fuse.active": False}):  # then no tasks are fused elsewhere, either
        all_of_them, result = tasks_of(client, lambda: numbers().std().compute())
    assert result == expected
    assert all_of_them > 2 * 144


def test_blocks_that_are_kept_are_kept_each(client):
    kept, array = tasks_of(client, numbers().persist)
    assert kept == 144
    wait(array)
    np.testing.assert_array_equal(array.sum(axis=0).compute(), numbers().sum(axis=0).compute(scheduler="sync"))


def test_on_gpus_blocks_are_stacked_where_only_singular_values_are_wanted(client):
    def values():
        x = da.random.RandomState(1).normal(size=(4000, 10), chunks=(100, 10))
        return da.linalg.svd(2 * x + 1)[1]

    assert bool(client.device_memory) == client.is_on_gpus
    few, result = tasks_of(client, lambda: values().compute())
    client.optimizes = False
    many, expected = tasks_of(client, lambda: values().compute())
    client.optimizes = True
    np.testing.assert_allclose(result, expected, rtol=1e-13)
    assert many > 80
    assert few < 20 if client.is_on_gpus else few > 40
