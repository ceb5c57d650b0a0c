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


@pytest.fixture
def gpu_kernel():
    kernel = Kernel(fake_gpu_environment(cupy=True, FAKE_GPUS="1"))
    kernel.ok("%load_ext jupyter_gpudask")
    yield kernel
    kernel.shutdown()


def test_the_first_gpu_cell_names_the_patch_that_does_not_fit_and_cells_for_the_cpu_go_on(gpu_kernel):
    gpu_kernel.ok(OTHER_SIGNATURE)
    for _ in range(2):
        reply = gpu_kernel.run(CELL.format("cupy"))
        assert reply.error == "UsageError"
        assert reply.error_value.startswith("The patch 'creation functions' does not fit dask 2026.")
        assert ': dask.array.eye has other parameters (rows, columns). Type: %pip install "dask>=' in reply.error_value
        assert reply.error_value.endswith("or run the cell with --array numpy --dataframe pandas.")
        assert gpu_kernel.ok(CELL.format("numpy")).value == "4.0"
    gpu_kernel.ok("examined = %gpudask doctor")
    found = gpu_kernel.ok("[(each.verdict, each.text) for each in examined.findings if each.subject == 'patches']")
    assert found.value.startswith("[('problem',")
    assert "The patch 'creation functions' does not fit" in found.value
    gpu_kernel.ok("da.eye = eye")
    assert gpu_kernel.ok(CELL.format("cupy")).value == "4.0"


def test_unloading_the_extension_undoes_every_change_and_loading_it_again_makes_them(gpu_kernel):
    gpu_kernel.ok("import dask.array as da\nfrom threading import Thread")
    gpu_kernel.ok("codes = [da.eye.__code__, da.linspace.__code__]\nfunctions = [da.Array.__array__, Thread.start]")
    as_before = (
        "[da.eye.__code__, da.linspace.__code__] == codes, [da.Array.__array__, Thread.start] == functions, "
        "type(dask.config.config['array']) is dict"
    )
    gpu_kernel.ok("import dask.config")
    for _ in range(2):
        assert gpu_kernel.ok(CELL.format("cupy")).value == "4.0"
        assert gpu_kernel.ok(as_before).value == "(False, False, False)"
        gpu_kernel.ok("%unload_ext jupyter_gpudask")
        assert gpu_kernel.ok(as_before).value == "(True, True, True)"
        gpu_kernel.ok("%load_ext jupyter_gpudask")
