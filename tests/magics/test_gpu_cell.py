"""A `%%gpudask` cell that computes on CuPy arrays, on a real cluster for pretend GPUs, with the stand-in for CuPy."""

import re

import pytest

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def kernel(cupy_kernel):
    return cupy_kernel


def test_the_cell_gives_cupy_and_the_cells_around_it_numpy(kernel):
    cell = "x = da.random.random((40, 40), chunks=10)\ny = (x + da.eye(40, chunks=10)).mean(axis=0)\ntype(y.compute())"
    assert kernel.ok(cell).value == "numpy.ndarray"
    assert kernel.ok(f"%%gpudask --dataframe pandas\n{cell}").value == "cupy.ndarray"
    assert kernel.ok("type(y.compute()), type(da.ones(3).compute())").value == "(cupy.ndarray, numpy.ndarray)"


def test_cells_are_switched_until_they_are_not(kernel):
    cell = "x = da.ones((40, 40), chunks=10)\ntype(x.mean(axis=0).compute())"
    assert "stood above it" in kernel.ok("%gpudask on --dataframe pandas").value
    try:
        reply = kernel.ok(cell)
        assert reply.value == "cupy.ndarray"
        assert reply.displayed[-1].startswith("CuPy and pandas on 2 × NVIDIA H200")
        assert "line 2" in re.sub(r"\x1b\[[\d;]*m", "", kernel.run("x = da.ones(3)\n1 / 0").traceback)
        assert kernel.ok(f"%%time\n{cell}").value == "cupy.ndarray"
        assert kernel.ok(f"%%gpudask --array numpy --dataframe pandas\n{cell}").value == "numpy.ndarray"
        assert kernel.ok("1 + 1").displayed == []
        assert kernel.ok("import asyncio\nawait asyncio.sleep(0)\ntype(da.ones(3)._meta)").value == "cupy.ndarray"
        assert "%gpudask on" not in kernel.ok("%config GpuDask.on").value
        assert "as if %%gpudask --dataframe pandas stood above it" in kernel.ok("%gpudask status").displayed[0]
    finally:
        kernel.ok("%gpudask off")
    assert kernel.ok(cell).value == "numpy.ndarray"


CELL = "%%gpudask --dataframe pandas"
KINDS = "kind_of = lambda x: (type(x._meta).__module__, type(x.compute(scheduler='sync')).__module__)"
HOST_ONLY = """
def host_only(block):
    return np.sort(np.asarray(block))
x = da.arange(6, chunks=2)
y = x.map_blocks(host_only)
"""


def footer(reply):
    return reply.displayed[-1] if reply.displayed else ""


@pytest.fixture
def without_fallback(kernel):
    kernel.ok('%config GpuDask.fallback = "error"')
    yield
    kernel.ok('%config GpuDask.fallback = "host"')


def test_what_cupy_lacks_runs_on_the_cpu_and_the_footer_says_so(kernel):
    kernel.ok('%config GpuDask.fallback = "error"')
    before = kernel.ok("from jupyter_gpudask.fallback.log import fallback_log; sum(fallback_log.blocks.values())").value
    assert kernel.run(f"{CELL}{HOST_ONLY}y.compute()").error == "TypeError"
    assert kernel.ok("sum(fallback_log.blocks.values())").value == before
    kernel.ok('%config GpuDask.fallback = "host"')
    reply = kernel.ok(f"{CELL}{HOST_ONLY}type((y + 1).compute()), int(y.sum().compute())")
    assert reply.value == "(cupy.ndarray, 15)"
    assert footer(reply).endswith("on the CPU: host_only (line 5), 6 blocks")
    quiet = kernel.ok(f"{CELL}\nint((da.arange(6, chunks=2) + 1).sum().compute())")
    assert (quiet.value, "on the CPU" in footer(quiet)) == ("21", False)
    table = kernel.ok("listed = %gpudask fallbacks\nlisted").value
    assert re.search(r"host_only +5 +6 +\d+\.\d\d +TypeError: Implicit conversion to a NumPy array", table)
    blocks = "[row.blocks for row in listed.fallbacks if row.operation == 'host_only']"
    assert kernel.ok(blocks).value == "[6]"
    typed = HOST_ONLY.replace("host_only)", "host_only, dtype=int)")
    strict = kernel.run(f"{CELL} --strict{typed}(y + 2).compute()")
    assert strict.error == "NotOnGpuError"
    assert strict.error_value.startswith("host_only (line 5) cannot run on the GPU: TypeError: Implicit conversion")


def test_ordinary_cells_compute_what_is_on_gpus_as_gpu_cells_do(kernel):
    kernel.ok(f"%%gpudask --dataframe pandas{HOST_ONLY}")
    reply = kernel.ok("int(y.sum().compute()), type((y + 1).compute())")
    assert (reply.value, reply.displayed) == ("(15, cupy.ndarray)", ["On the CPU: host_only (line 5), 6 blocks"])
    kernel.ok('%config GpuDask.results = "host"')
    try:
        reply = kernel.ok("import dask\ntype((x + 1).compute()), type(dask.delayed(cupy.ones)(3).compute())")
        assert (reply.value, reply.displayed) == ("(numpy.ndarray, cupy.ndarray)", [])
        threaded = "from threading import Thread\nkinds = []\n"
        threaded += "t = Thread(target=lambda: kinds.append(type(y.max().compute())))\nt.start(); t.join()\nkinds"
        assert kernel.ok(threaded).value == "[numpy.int64]"
        assert kernel.ok("type(da.ones(3)._meta), da.ones(3).map_blocks(host_only).sum().compute()").displayed == []
    finally:
        kernel.ok('%config GpuDask.results = "gpu"')


def test_the_blocks_on_the_workers_are_cupy(kernel):
    kernel.ok("%%gpudask --dataframe pandas\nkept = da.random.normal(size=(40, 40), chunks=20).persist()")
    kernel.ok("import distributed; distributed.wait(kept)")
    kernel.ok(
        "keys = {future.key for future in distributed.futures_of(kept)}\ndef kinds(dask_worker):\n"
        "    return [type(value).__module__ for key, value in dask_worker.data.items() if key in keys]"
    )
    assert kernel.ok("sum(client.run(kinds).values(), [])").value == str(["cupy"] * 4)


def test_a_frame_that_is_kept_has_all_its_partitions(kernel):
    kernel.ok("import pandas as pd, dask, dask.dataframe as dd\nmany = pd.DataFrame({'key': range(1000), 'value': 1})")
    kernel.ok("frame = dd.from_pandas(many, npartitions=24)\nby_key = lambda: frame.groupby('key').value.sum()")
    kept = "len(dask.persist(by_key())[0].compute()), len(client.persist([by_key()])[0].compute()), len(by_key())"
    assert kernel.ok(f"{CELL}\n{kept}").value == "(1000, 1000, 1000)"


@pytest.mark.usefixtures("without_fallback")
def test_mixing_is_refused_by_the_names_of_the_two(kernel):
    kernel.ok("host = np.arange(4.0)\noutside, other = (da.from_array(each, chunks=2) for each in (host, host + 1))")
    for expression, names in {
        "outside + inside": "outside is on the CPU and inside on the GPU",
        "(2 * inside) @ (outside - 1)": "outside is on the CPU and inside on the GPU",
        "(outside + other) * inside": "outside and other are on the CPU and inside on the GPU",
        "da.concatenate([inside, outside])": "outside is on the CPU and inside on the GPU",
        "np.add(inside, outside)": "outside is on the CPU and inside on the GPU",
        "da.searchsorted(outside, inside)": "outside is on the CPU and inside on the GPU",
        "da.outer(inside, outside).compute()": "outside is on the CPU and inside on the GPU",
        "(lambda a, b: a * b)(outside, inside)": "a is on the CPU and b on the GPU",
    }.items():
        reply = kernel.run(f"{CELL}\ninside = da.ones(4, chunks=2)\n{expression}")
        assert (reply.error, names in reply.error_value) == ("MixedBackendsError", True), expression
        assert "from_array" in reply.error_value or "--move " in reply.error_value
        plain = re.sub(r"\x1b\[[\d;]*m", "", reply.traceback)
        assert "line 3" in plain
        assert f"{plain.count('Traceback')} {plain.count('jupyter_gpudask/')} {plain.count('dask/')}" == "1 0 0"


def test_numbers_and_functions_of_the_users_own_may_mix(kernel):
    kernel.ok("outside = da.from_array(np.arange(4.0), chunks=2)\nmean = outside.mean()")
    cell = "x = da.ones(4, chunks=2)\ny = da.map_blocks(lambda a, b: a + cupy.asarray(b), x, outside, dtype=float)"
    assert kernel.ok(f"{CELL}\n{cell}\nfloat((y - mean + np.float64(1)).sum().compute())").value == "8.0"


def test_a_collection_from_outside_stays_on_the_cpu_and_the_footer_names_it_with_its_line(kernel):
    kernel.ok("outside = da.arange(6, chunks=3)\nother = da.ones(2)")
    reply = kernel.ok(f"{CELL}\ntotal = da.ones(4).sum().compute()\n\ntype((outside + 1).compute())")
    assert reply.value == "numpy.ndarray"
    assert footer(reply).endswith("on the CPU: outside (line 4)")
    assert "other" not in footer(reply)


def test_what_the_cell_makes_on_the_cpu_is_named_too(kernel):
    kernel.ok("def texts_of(block): return np.full(block.shape, 'a')")
    for cell, name in {
        "texts = da.from_array(np.array(['a', 'b']), chunks=1)\ntexts.compute()": "texts (line 3)",
        "da.from_array(np.array(['c', 'd']), chunks=1).compute()": "an array without a name (line 2)",
        "da.zeros(2, chunks=1).map_blocks(texts_of, dtype='U1').compute()": "an array that texts_of returns (line 2)",
    }.items():
        assert footer(kernel.ok(f"{CELL}\n{cell}")).endswith(f"on the CPU: {name}")


def test_a_moved_collection_is_on_the_gpu_in_the_cell_and_what_it_was_after_it(kernel):
    kernel.ok(f"{KINDS}\noutside, other = da.arange(6, chunks=3), da.arange(4)\nbefore = outside")
    use = "kind_of(outside), int((outside + da.ones(6, chunks=3)).sum().compute())"
    for names in ("outside", "outside,other", "all", "all "):
        reply = kernel.ok(f"{CELL} --move {names}\n{use}")
        assert reply.value == "(('cupy', 'cupy'), 21)"
        assert "on the CPU" not in footer(reply)
        after = kernel.ok("outside is before, kind_of(outside), kind_of(other)").value
        assert after == str((True, ("numpy", "numpy"), ("numpy", "numpy")))
    assert kernel.run(f"{CELL} --move outside\n1 / 0").error == "ZeroDivisionError"
    assert kernel.ok("outside is before").value == "True"


def test_a_moved_name_that_the_cell_binds_anew_or_writes_to_keeps_what_it_got(kernel):
    kernel.ok(f"{KINDS}\noutside, weights = da.arange(6, chunks=3), da.ones(4, chunks=2)")
    kernel.ok(f"{CELL} --move outside,weights\noutside = outside * 2\nweights[0] = 5")
    assert kernel.ok("kind_of(outside), int(outside.sum().compute())").value == "(('cupy', 'cupy'), 30)"
    assert kernel.ok("kind_of(weights), float(weights.sum().compute())").value == "(('cupy', 'cupy'), 8.0)"


def test_what_cannot_be_moved_is_one_sentence_and_nothing_runs(kernel):
    kernel.ok("number, texts, ran = 1, da.from_array(np.array(['a'])), False")
    for name, sentence in {
        "nothing": "there is no such variable",
        "number": "of type int",
        "texts": "which no GPU library supports",
    }.items():
        reply = kernel.run(f"{CELL} --move {name}\nran = True")
        assert (reply.error, sentence in reply.printed) == ("UsageError", True)
    assert kernel.ok("ran").value == "False"


def test_results_come_as_numpy_if_wanted_from_within_containers_too(kernel):
    for expression in (
        "x.compute()",
        "da.compute(x, [x])[1][0]",
        "dask.compute({'a': x})[0]['a']",
        "client.compute(x).result()",
        "client.compute([x])[0].result()",
        "client.gather(client.compute(x))",
        "dask.delayed(lambda: cupy.ones(3))().compute()",
        "dask.delayed(lambda: {'a': (cupy.ones(3), [cupy.ones(2)])})().compute()['a'][1][0]",
    ):
        cell = f"x = da.ones(4, chunks=2)\nresult = {expression}\ntype(result), result.sum()"
        assert kernel.ok(f"{CELL} --results host\n{cell}").value.startswith("(numpy.ndarray, "), expression
        assert kernel.ok(f"{CELL}\n{cell}").value.startswith("(cupy.ndarray, "), expression


def test_results_are_those_of_the_cpu_by_default_and_can_be_used_with_collections_on_the_gpu(kernel):
    kernel.ok("%config GpuDask.results = 'host'")
    try:
        reply = kernel.ok(
            f"{CELL}\nx = da.arange(6, chunks=2).astype(float)\nmean = x.mean().compute()\n"
            "centred = x - x.compute() + mean\nisinstance(mean, float), type(centred._meta), centred.compute().tolist()"
        )
    finally:
        kernel.ok("%config GpuDask.results = 'gpu'")
    assert reply.value == "(True, cupy.ndarray, [2.5, 2.5, 2.5, 2.5, 2.5, 2.5])"
    assert "on the CPU" not in footer(reply)


def test_what_is_kept_on_the_workers_stays_on_the_gpus_also_if_results_come_as_numpy(kernel):
    kernel.ok(f"{KINDS}\n")
    assert (
        kernel.ok(f"{CELL} --results host\nkept = da.ones(4, chunks=2).persist()\ntype(kept.compute())").value
        == "numpy.ndarray"
    )
    assert kernel.ok("type(kept.compute())").value == "cupy.ndarray"


def test_a_result_that_does_not_fit_is_refused_before_it_is_computed(kernel):
    cell = "big = da.ones((20_000, 10_000), chunks=5_000)\nbig.compute()"
    reply = kernel.run(f"{CELL}\n{cell}")
    assert reply.error == "ResultTooLargeError"
    assert "The result big needs 3.0 GiB on the GPU of this kernel, which has 1.0 GiB free." in reply.error_value
    assert "persist()" in reply.error_value
    assert "--results host" in reply.error_value
    assert footer(reply) == ""
    assert kernel.ok(f"{CELL}\nfloat(big.sum().compute())").value == "200000000.0"


def test_several_results_that_fit_alone_and_not_together_are_refused(kernel):
    cell = "a, b = (da.ones((9_000, 6_000), chunks=6_000) + n for n in (1, 2))\nda.compute(a, b)"
    reply = kernel.run(f"{CELL}\n{cell}")
    assert reply.error == "ResultTooLargeError"
    assert "The result a and b needs 1.6 GiB" in reply.error_value


@pytest.mark.usefixtures("without_fallback")
def test_without_the_fallback_an_ordinary_cell_says_where_it_is(kernel):
    made = "lacking = da.nanquantile(da.arange(10.0, chunks=5).reshape(2, 5).rechunk((1, 5)), 0.5, axis=1)"
    kernel.ok(f"{CELL}\n{made}")
    for _ in range(2):
        reply = kernel.run("lacking.compute()")
        assert reply.error == "TypeError"
        assert reply.traceback.count("%config GpuDask.fallback = 'host', what the library lacks runs on the CPU") == 1


@pytest.mark.usefixtures("without_fallback")
def test_a_note_under_an_error_of_the_gpu_library_shows_how_to_run_without_it(kernel):
    hint = "This error comes from CuPy, which does not support everything that NumPy does. "
    hint += "To run the cell with NumPy, type: %%gpudask --array numpy"
    for code in (
        "da.ma.masked_equal(da.arange(4, chunks=2), 2).compute()",
        "da.spacing(da.ones(4, chunks=2)).compute()",
    ):
        reply = kernel.run(f"{CELL}\n{code}")
        assert (reply.status, hint in reply.displayed) == ("error", True), (code, reply.displayed)
        assert kernel.run(f"{CELL} --array numpy\n{code}").status == "ok"
    reply = kernel.run(f"{CELL}\nda.ones(4, chunks=2).map_blocks(np.asarray, dtype=float, meta=np.ones(1)).compute()")
    assert (reply.status, hint in reply.displayed) == ("error", True)
    for code in ("da.ones(4, chunks=2).no_such_thing", "[].index(1)", "int('x')", "da.ones(4).reshape(5)"):
        reply = kernel.run(f"{CELL}\n{code}")
        assert (reply.status, reply.displayed) == ("error", []), code


def test_a_note_under_an_implicit_conversion_to_numpy_shows_how_to_convert(kernel):
    hint = "A result on the GPU is not converted to a NumPy array implicitly. To convert a CuPy array, use x.get(); "
    hint += "to get all results as NumPy and pandas, type: %%gpudask --results host"
    for code in ("np.asarray(computed)", "np.testing.assert_allclose(computed, 1)"):
        kernel.ok(f"{CELL}\nearlier = da.ones(4, chunks=2)\ncomputed = earlier.compute()")
        reply = kernel.run(f"{CELL} --array numpy\n{code}")
        assert (reply.status, hint in reply.displayed) == ("error", True)
        kernel.ok(f"{CELL} --results host\ncomputed = earlier.compute()\n{code}")
