"""Patches in a kernel: a Dask that they do not fit is named by the first GPU cell, and `%unload_ext` undoes them."""

import pytest
from helpers import Kernel, fake_gpu_environment

pytestmark = pytest.mark.cluster

OTHER_SIGNATURE = """
import dask.array as da
eye = da.eye
da.eye = lambda rows, columns=None: eye(rows)
"""
CELL = "%%gpudask --dataframe pandas --array {}\nfloat(da.ones(4, chunks=2).sum().compute())"


AS_BEFORE = (
    "[da.eye.__code__, da.linspace.__code__] == codes, [da.Array.__array__, Thread.start] == functions, "
    "type(dask.config.config['array']) is dict"
)


@pytest.fixture
def kernel():
    kernel = Kernel(fake_gpu_environment(cupy=True, FAKE_GPUS="1"))
    kernel.ok("%load_ext jupyter_gpudask\nimport dask.array as da, dask.config\nfrom threading import Thread")
    kernel.ok("codes = [da.eye.__code__, da.linspace.__code__]\nfunctions = [da.Array.__array__, Thread.start]")
    yield kernel
    kernel.shutdown()


def test_a_patch_that_does_not_fit_is_named_and_unloading_the_extension_undoes_those_that_do(kernel):
    kernel.ok(OTHER_SIGNATURE)
    for _ in range(2):
        reply = kernel.run(CELL.format("cupy"))
        assert reply.error == "UsageError"
        assert reply.error_value.startswith("The patch 'creation functions' does not fit dask 2026.")
        assert ': dask.array.eye has other parameters (rows, columns). Type: %pip install "dask>=' in reply.error_value
        assert reply.error_value.endswith("or run the cell with --array numpy --dataframe pandas.")
        assert kernel.ok(CELL.format("numpy")).value == "4.0"
    kernel.ok("examined = %gpudask doctor")
    found = kernel.ok("[(each.verdict, each.text) for each in examined.findings if each.subject == 'patches']")
    assert found.value.startswith("[('problem',")
    assert "The patch 'creation functions' does not fit" in found.value
    kernel.ok("da.eye = eye")
    for _ in range(2):
        assert kernel.ok(CELL.format("cupy")).value == "4.0"
        assert kernel.ok(AS_BEFORE).value == "(False, False, False)"
        kernel.ok("%unload_ext jupyter_gpudask")
        assert kernel.ok(AS_BEFORE).value == "(True, True, True)"
        kernel.ok("%load_ext jupyter_gpudask")
