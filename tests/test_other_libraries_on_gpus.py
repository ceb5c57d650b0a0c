"""Libraries that compute with Dask themselves, in cells for GPUs: `pytest -m gpu` where they are installed."""

import importlib.util

import pytest
from helpers import Kernel
from test_gpu import has_gpus

pytestmark = [pytest.mark.gpu, pytest.mark.cluster]

if not has_gpus():
    pytest.skip("needs a GPU and cuDF", allow_module_level=True)


@pytest.fixture(scope="module")
def kernel():
    kernel = Kernel()
    kernel.ok("%load_ext jupyter_gpudask\n%config GpuDask.results = 'gpu'")
    kernel.ok("started = %gpudask start --gpus 1\nclient = started.client", timeout=120)
    kernel.ok("%%gpudask\nimport cupy, numpy as np, dask.array as da, dask.dataframe as dd, pandas as pd")
    yield kernel
    kernel.shutdown()


def needs(name):
    return pytest.mark.skipif(importlib.util.find_spec(name) is None, reason=f"needs {name}")


@needs("xgboost")
def test_predictions_of_xgboost_are_where_their_metadata_says_and_compute_on(kernel):
    reply = kernel.ok(
        "%%gpudask\n"
        "from xgboost import dask as dxgb\n"
        "x = da.random.default_rng(0).normal(size=(2000, 4), chunks=(500, 4))\n"
        "y = (x[:, 0] > 0).astype('f4')\n"
        "data = dxgb.DaskDMatrix(client, x, y)\n"
        "options = {'tree_method': 'hist', 'device': 'cuda', 'objective': 'binary:logistic'}\n"
        "trained = dxgb.train(client, options, data, num_boost_round=5)\n"
        "given = [dxgb.predict(client, trained, x), dxgb.predict(client, trained, data)]\n"
        "given.append(dxgb.inplace_predict(client, trained, x))\n"
        "kinds = {(type(p._meta), type(p.blocks[0].compute())) for p in given}\n"
        "right = [float(((p > 0.5) == (y > 0.5)).mean().compute()) for p in given]\n"
        "kinds == {(cupy.ndarray, cupy.ndarray)}, min(right) > 0.9",
        timeout=120,
    )
    assert reply.value == "(True, True)"


@needs("xgboost")
def test_predictions_of_a_frame_stay_on_the_gpu_though_their_metadata_is_of_pandas(kernel):
    kernel.ok(
        "%%gpudask\n"
        "from xgboost import dask as dxgb\n"
        "frame = dd.from_pandas(pd.DataFrame({'a': np.arange(1000.0), 'b': np.arange(1000.0) % 7}), npartitions=4)\n"
        "label = (frame.a > 500).astype('f4')\n"
        "trained = dxgb.train(client, {'device': 'cuda'}, dxgb.DaskDMatrix(client, frame, label), num_boost_round=5)\n"
        "predicted = dxgb.predict(client, trained, frame)",
        timeout=120,
    )
    reply = kernel.ok(
        "%%gpudask\n"
        "kinds = type(predicted._meta).__module__, type(predicted.partitions[0].compute()).__module__\n"
        "[kind.partition('.')[0] for kind in kinds], float(((predicted - label) ** 2).mean().compute()) < 0.2"
    )
    assert reply.value == "(['pandas', 'cudf'], True)"
    assert not any("on the CPU" in text for text in reply.displayed)


@needs("xarray")
def test_xarray_computes_on_the_gpus_and_gives_numpy_where_it_is_asked_to(kernel):
    reply = kernel.ok(
        "%%gpudask\n"
        "import xarray\n"
        "x = xarray.DataArray(da.arange(160000, chunks=40000).reshape((400, 400)).astype('f8'), dims=('t', 'b'))\n"
        "numbers = float(x.mean().sum()), float(x.mean('t').sum().values), float((x - x.mean()).std().values)\n"
        "type(x.data._meta).__module__.startswith('cupy'), [round(n, 3) for n in numbers]"
    )
    assert reply.value == "(True, [79999.5, 31999800.0, 46188.022])"
    refused = kernel.run("%%gpudask\nx.mean().compute().sum().values")
    assert (refused.status, any("--results host" in text for text in refused.displayed)) == ("error", True)
    assert kernel.ok("%%gpudask --results host\nfloat(x.mean().compute().sum().values)").value == "79999.5"


@needs("dask_ml")
def test_scalers_and_encoders_of_dask_ml_give_what_they_give_on_the_cpu(kernel):
    code = (
        "from dask_ml.preprocessing import Categorizer, DummyEncoder, MinMaxScaler, StandardScaler\n"
        "d = dd.from_pandas(pd.DataFrame({'a': [1., 2, 3, 4], 'b': [4., 3, 8, 1], 's': list('abab')}), npartitions=2)\n"
        "scaled = [kind().fit_transform(d[['a', 'b']]) for kind in (StandardScaler, MinMaxScaler)]\n"
        "frames = dask.compute(*scaled, DummyEncoder().fit_transform(Categorizer().fit_transform(d)))"
    )
    kernel.ok(f"import dask\n{code}\nexpected = frames")
    kernel.ok(f"%%gpudask --results host\n{code}", timeout=120)
    same = "[bool(np.allclose(e.astype(float), f.astype(float))) for e, f in zip(expected, frames)]"
    assert kernel.ok(same).value == "[True, True, True]"
