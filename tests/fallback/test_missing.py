"""Which errors mean that a GPU library lacks something, and the twins of SciPy's functions."""

import functools
import itertools
import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from device import MARKS, cupy
from distributed.protocol.pickle import dumps, loads

from jupyter_gpudask.fallback.missing import reason_to_fall_back
from jupyter_gpudask.fallback.twins import PACKAGES, Twins, with_twin
from jupyter_gpudask.fallback.values import on_host
from jupyter_gpudask.inspection.user_code import library_behind
from jupyter_gpudask.overlay import DEFAULT_FALLBACK
from jupyter_gpudask.patches.user_functions import ResultsAt

pytestmark = MARKS

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "what-runs-where.md").read_text()


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (np.asarray, "TypeError: Implicit conversion"),
        (lambda x: np.nanquantile(x, 0.5), "TypeError: no implementation found for 'numpy.nanquantile'"),
        (np.spacing, r"TypeError: operand type\(s\) all returned NotImplemented from __array_ufunc__"),
        (lambda x: x + np.ones(3), "TypeError: Unsupported type <class 'numpy.ndarray'>"),
        (lambda x: x.astype("U3"), "(Type|Value)Error: Unsupported dtype"),
        (lambda x: x.newbyteorder, r"AttributeError: '(cupy\.)?ndarray' object has no attribute 'newbyteorder'"),
        (lambda x: cupy.nanquantile, "AttributeError: module 'cupy' has no attribute 'nanquantile'"),
        (lambda x: dict.fromkeys(x, 1), "TypeError: unhashable type: '(cupy\\.)?ndarray'"),
        (lambda x: x.reshape(7), ""),
        (lambda x: [].missing, ""),
        (lambda x: int("a"), ""),
        (lambda x: 1 / 0, ""),
    ],
)
def test_a_lack_is_told_from_other_errors(function, reason):
    with pytest.raises(Exception) as failure:  # noqa: PT011 - of any class
        function(cupy.ones(3))
    found = reason_to_fall_back(failure.value)
    assert re.match(reason, found)
    assert bool(found) == bool(reason) or isinstance(failure.value, ValueError)  # CuPy's own about shapes: tried again


def test_an_error_for_a_refused_conversion_is_a_lack_if_a_library_raises_it():
    refused = raised_in("cupy._core.core", TypeError("Implicit conversion to a NumPy array is not allowed."))
    for module, cause, is_lack in (
        ("scipy.sparse._compressed", refused, True),
        ("scipy.sparse._compressed", ValueError("of the user"), False),
        ("analysis", refused, False),
    ):
        error = ValueError("unrecognized csr_array constructor input")
        error.__cause__ = cause
        assert bool(reason_to_fall_back(raised_in(module, error))) == is_lack


class UDFError(RuntimeError):
    """Stands for that of cuDF."""

    __module__ = "cudf.core.udf.utils"


def raised_in(module, error):
    """The error, as code of that module raises it."""
    scope = {"__name__": module, "error": error}
    with pytest.raises(type(error)) as failure:
        eval("raises()", {"raises": lambda: exec("raise error", scope)})  # noqa: S102, S307 - gives it a stack frame
    return failure.value


@pytest.mark.parametrize(("module", "is_lack"), [("cudf.core.column", True), ("analysis", False)])
def test_an_endless_recursion_of_a_library_is_a_lack_wherever_it_ends(module, is_lack):
    scope, calls = {"__name__": module}, itertools.count()
    exec("def look(into, call): return call(look, into, call)", scope)  # noqa: S102

    def call(function, *args):
        return function(*args) if next(calls) < 100 else stop()

    def stop():
        raise RecursionError("maximum recursion depth exceeded")

    with pytest.raises(RecursionError) as failure:
        scope["look"]([slice(3)], call)
    assert bool(reason_to_fall_back(failure.value)) == is_lack


# Of benchmarks/results/2026-11-21-docstring-examples-h200.json.
LACKS = [
    ("cupy._core.core", TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()`")),
    ("cupy._indexing", TypeError("unravel_index() got an unexpected keyword argument 'shape'")),
    ("dask.array.routines", TypeError("unravel_index() got an unexpected keyword argument 'shape'")),
    ("cupy._core", ValueError("Unsupported dtype timedelta64[D]")),
    ("cupy", NotImplementedError("Callable functions are not supported currently")),
    ("cudf.core.indexed_frame", ValueError("UDFs using **kwargs are not yet supported.")),
    ("cudf.core.indexed_frame", ValueError("user defined function compilation failed.")),
    ("cudf.core.series", NotImplementedError("The limit keyword is not supported")),
    ("cudf.core.frame", AttributeError("DataFrame object has no attribute sem")),
    ("cudf.utils.queryutils", SyntaxError("invalid syntax")),
    ("pandas.core.reshape.concat", TypeError("cannot concatenate object of type '<class 'cudf.DataFrame'>'")),
    ("cudf.core.column", TypeError("Implicit conversion to a host NumPy array via __array__ is not allowed")),
    ("pandas.core.reshape.merge", TypeError("Can only merge Series, a <class 'cudf.core.DataFrame'> was passed")),
    ("pandas.core.util.hashing", TypeError("Unexpected type for hashing <class 'cudf.core.dataframe.DataFrame'>")),
    ("cudf.core.udf.rolling_utils", UDFError("Signature mismatch: 1 argument types given")),
    ("dask_cudf._expr", NotImplementedError("axis not yet supported in clip.")),
    ("cudf.core.dataframe", StopIteration("no column")),
    ("cudf.core.groupby.groupby", IndexError("index 0 is out of bounds for axis 0 with size 0")),
    ("scipy.sparse._sputils", TypeError("'ndarray' object cannot be interpreted as an integer")),
    ("dask.dataframe.groupby", ValueError("Grouping by an unaligned column is unsafe and unsupported.")),
    ("pylibcudf.rolling", RuntimeError("CUDF failure at: rolling.cu:55: Unsupported aggregation")),
]
OTHERS = [
    ("__main__", TypeError("Implicit conversion to a NumPy array is not allowed.")),
    ("__main__", TypeError("my_function() got an unexpected keyword argument 'shape'")),
    ("__main__", NotImplementedError("later")),
    ("analysis", TypeError("a <class 'cudf.core.dataframe.DataFrame'> is not what I want")),
    ("pandas.core.indexes", ValueError("a <class 'cudf.core.dataframe.DataFrame'> of 3 rows")),
    ("cudf.core.frame", RuntimeError("of no kind that is known")),
    ("analysis", ValueError("cupy has no such thing")),
    ("numpy.linalg", np.linalg.LinAlgError("Singular matrix")),
    ("cupy.cuda.memory", MemoryError("Out of memory allocating 8 bytes")),
    ("cupy.cuda.runtime", RuntimeError("cudaErrorIllegalAddress: an illegal memory access was encountered")),
    ("pylibcudf", RuntimeError("CUDA error encountered at: file.cu:1: 700 cudaErrorIllegalAddress")),
    ("cudf.core.frame", KeyError("result")),
]


@pytest.mark.parametrize(("module", "error", "is_lack"), [(*each, each in LACKS) for each in (*LACKS, *OTHERS)])
def test_what_fails_on_a_gpu_is_a_lack_unless_it_is_of_the_user_of_memory_or_of_the_device(module, error, is_lack):
    reason = reason_to_fall_back(raised_in(module, error))
    assert reason.startswith(f"{type(error).__name__}: ") if is_lack else reason == ""


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("CUDF failure at: utilities.cu:9: 700 cudaErrorIllegalAddress an illegal memory access"),
        RuntimeError("CUDF failure at: buffer.cpp:3: std::bad_alloc: out_of_memory: CUDA error at: rmm.hpp:12"),
        RuntimeError("CUDA error: device-side assert triggered"),
        ValueError('`dtype` inference failed in `map_blocks`.\n  File "/lib/cupy/_core.py"\ncudaErrorLaunchFailure'),
        AttributeError("CUDA_ERROR_ECC_UNCORRECTABLE"),
    ],
)
def test_an_error_of_the_device_or_its_memory_is_never_said_to_be_a_lack(error):
    raised = raised_in("cudf.core.frame", error)
    assert reason_to_fall_back(raised) == ""
    assert library_behind(raised) is None


@pytest.mark.parametrize(
    ("caller", "text", "is_lack"),
    [
        ("dask.utils", "Series.clip() got an unexpected keyword argument 'axis'", True),
        ("jupyter_gpudask.patches.frames", "read_csv() got an unexpected keyword argument 'on_bad_lines'", True),
        ("dask.dataframe", "StringMethods.replace() missing 1 required positional argument: 'repl'", True),
        ("__main__", "Series.clip() got an unexpected keyword argument 'axis'", False),
        ("dask.utils", "clean() got an unexpected keyword argument 'axis'", False),
        ("dask.utils", "Series.clip() does nothing", False),
    ],
)
def test_other_parameters_than_those_of_pandas_are_a_lack_unless_the_user_made_the_call(
    monkeypatch, caller, text, is_lack
):
    monkeypatch.setitem(sys.modules, "cudf", types.SimpleNamespace(Series=object, read_csv=len, clean=len))
    assert bool(reason_to_fall_back(raised_in(caller, TypeError(text)))) == is_lack


@pytest.mark.parametrize(
    ("library", "kind", "text"),
    [
        ("pyarrow.lib", TypeError, "Expected dict key of type str or bytes, got 'int'"),
        ("pandas.core.dtypes.cast", ValueError, "cannot convert float NaN to integer"),
        ("numpy", TypeError, "The DType DateTime64DType could not be promoted by Float64DType"),
    ],
)
@pytest.mark.parametrize(("caller", "is_lack"), [("cudf.core.replace", True), ("__main__", False), ("dask", False)])
def test_an_error_of_another_library_is_a_lack_if_cudf_called_it(caller, is_lack, library, kind, text):
    scope = {"__name__": library, "error": kind(text)}
    with pytest.raises(kind) as failure:
        exec("call()", {"__name__": caller, "call": functools.partial(exec, "raise error", scope)})  # noqa: S102
    frames = [entry.frame.f_globals["__name__"] for entry in failure.traceback]
    assert frames[-1] == library
    assert bool(reason_to_fall_back(failure.value)) == is_lack


def test_an_error_that_cython_raises_is_a_lack_though_its_frame_has_no_globals():
    code = compile("raise error", "csv.pyx", "exec").replace(co_name="pylibcudf.io.csv.CsvReaderOptions.skiprows")
    error = TypeError("int() argument must be a string, a bytes-like object or a real number, not 'range'")
    with pytest.raises(TypeError) as failure:
        exec(code, {"error": error})  # noqa: S102
    assert reason_to_fall_back(failure.value)


def test_an_error_of_numba_about_a_gpu_array_is_a_lack():
    class TypingError(Exception):
        __module__ = "numba.core.errors"

    for word in ("cannot", "Cannot"):  # Numba 0.57; 0.58 and newer
        lack = TypingError(f"non-precise type\n{word} determine Numba type of <class 'cupy.ndarray'>")
        assert reason_to_fall_back(raised_in("numba.core", lack))
    assert reason_to_fall_back(raised_in("numba.core", TypingError("cannot unify array and int64"))) == ""


def error_of(module, name, parent=Exception):
    return type(name, (parent,), {"__module__": module})("\x1b[1mstr\x1b[0m may need a newer version")


@pytest.mark.parametrize(
    ("error", "is_lack"),
    [
        (error_of("cuda.bindings.nvjitlink", "nvJitLinkError"), True),
        (error_of("cuda.core._utils.cuda_utils", "NVRTCError", RuntimeError), True),
        (error_of("numba.core.errors", "NumbaNotImplementedError", NotImplementedError), True),
        (error_of("numba.cuda.cudadrv.error", "NvvmError"), True),
        (error_of("numba.cuda.cudadrv.driver", "CudaAPIError"), False),
        (error_of("cuda.core._utils.cuda_utils", "CUDAError"), False),
        (error_of("cuda.bindings.runtime", "RuntimeError", RuntimeError), False),
    ],
)
def test_a_compiler_that_cudf_calls_is_a_lack_whatever_it_says(error, is_lack):
    for caller in ("cudf.core.udf.utils", "__main__"):  # the second one compiles a function itself
        scope = {"__name__": "numba.cuda.compiler", "error": error.with_traceback(None)}
        with pytest.raises(type(error)) as failure:
            exec("call()", {"__name__": caller, "call": functools.partial(exec, "raise error", scope)})  # noqa: S102
        expected = f"{type(error).__name__}: str may need a newer version" if is_lack and caller != "__main__" else ""
        assert reason_to_fall_back(failure.value) == expected


def test_what_cupy_cannot_compile_is_a_lack():
    kind = type("CompileException", (Exception,), {"__module__": "cupy.cuda.compiler"})
    error = kind("a1b2.cubin.cu(37): error: no suitable conversion function\n\n1 error detected")
    assert reason_to_fall_back(raised_in("cupy._core", error)) == "CompileException: no suitable conversion function"


def test_the_page_says_what_the_code_does():
    table = (DOCS / "gpu-cells.md").read_text().partition("## The fallback")[2].partition("\n- ")[0]
    rows = re.findall(r"^\| (?:`(\w+)`|an error of Numba) \| (.*) \|$", table, re.MULTILINE)
    assert rows
    for name, examples in rows:
        kind = getattr(__builtins__, name, None) if not isinstance(__builtins__, dict) else __builtins__.get(name)
        for text in re.findall("`([^`]+)`", examples):
            error = kind(text) if kind else type("TypingError", (Exception,), {"__module__": "numba"})(text)
            assert reason_to_fall_back(raised_in("cudf.core", error)), text
    assert f'| `"{DEFAULT_FALLBACK}"` |' in next(line for line in PAGE.splitlines() if "This is the default." in line)
    assert f"Functions of {', '.join(f'`{name}`' for name in PACKAGES[:3])} and `{PACKAGES[3]}`" in PAGE


def test_a_function_of_scipy_uses_its_twin_for_blocks_on_the_gpu(monkeypatch):
    def gaussian_filter(image, sigma):
        return type(image), "on the host", sigma

    def twin(image, sigma):
        return type(image), "on the GPU", sigma

    def median_filter(image, size):
        return image, size

    def rotate(image, angle):
        return image, angle

    def zoom(image, zoom, order=3):
        return image, zoom, order

    def convolve(image, weights):
        return image, weights

    def affine_transform(image, matrix):
        return image, matrix

    functions = affine_transform, convolve, gaussian_filter, median_filter, rotate, zoom
    scipy = types.SimpleNamespace(**{each.__name__: each for each in functions})
    cupyx = types.SimpleNamespace(
        affine_transform=lambda image, matrix, float64_coords=False: None,
        convolve=lambda image, weights: type(weights),
        gaussian_filter=twin,
        median_filter=lambda image, size, mode: None,
        rotate=lambda image, angle, texture_memory=False: None,
        zoom=lambda image, zoom, order=1: None,
    )
    for name in ("scipy", "cupyx", "cupyx.scipy"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, "scipy.ndimage", scipy)
    monkeypatch.setitem(sys.modules, "cupyx.scipy.ndimage", cupyx)
    function = with_twin(gaussian_filter)
    assert type(function) is Twins
    assert function(cupy.ones(2), 1) == (cupy.ndarray, "on the GPU", 1)
    assert function(np.ones(2), 1) == (np.ndarray, "on the host", 1)
    assert with_twin(functools.partial(gaussian_filter, sigma=2))(cupy.ones(2)) == (cupy.ndarray, "on the GPU", 2)
    for call in (with_twin(convolve), functools.partial(with_twin(convolve), weights=[1, 2])):
        given = () if isinstance(call, functools.partial) else (np.ones(2),)
        assert call(cupy.ones(2), *given) is cupy.ndarray
    assert type(with_twin(rotate)) is Twins
    assert with_twin(median_filter) is median_filter, "SciPy's lacks a parameter"
    assert with_twin(affine_transform) is affine_transform, "coordinates of less precision"
    assert with_twin(zoom) is zoom, "another default gives another result"
    assert with_twin(len) is len


def test_functions_of_the_user_that_call_scipy_call_cupy_with_arrays_on_gpus(monkeypatch):
    ndimage = pytest.importorskip("scipy.ndimage")
    of_gpu = types.ModuleType("cupyx.scipy.ndimage")
    of_gpu.label = functools.wraps(ndimage.label)(lambda given, **options: (type(given), options))
    for name in ("cupyx", "cupyx.scipy"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, of_gpu.__name__, of_gpu)
    label = ndimage.label

    def of_module(block):
        return ndimage.label(block, output=int)

    def of_variable(block):
        return label(block, output=int)

    def imports(block):
        from scipy import ndimage as images

        return images.label(block, output=int)

    def imports_the_function(block):
        from scipy.ndimage import label

        return label(block, output=int)

    def calls_another(block, weights=()):
        assert type(weights) in (tuple, list), "an argument of this name is for SciPy's functions only"
        return imports(block)

    def calls_itself(block, times=2):
        return calls_itself(block, times - 1) if times else of_module(block)

    for function in (of_module, of_variable, imports, imports_the_function, calls_another, calls_itself):
        exchanged = loads(dumps(with_twin(function)))
        assert exchanged(cupy.ones(2)) == (cupy.ndarray, {"output": int})
        assert exchanged(np.array([1, 0, 1]))[0].tolist() == [1, 0, 2]
    assert with_twin(calls_another)(cupy.ones(2), weights=[1])[0] is cupy.ndarray


def test_functions_of_the_user_that_set_outer_variables_or_call_no_scipy_are_left_alone():
    ndimage, count = pytest.importorskip("scipy.ndimage"), 0

    def counts(block):
        nonlocal count
        count += 1
        return ndimage.label(block)

    def sets(block):
        global CALLED  # noqa: PLW0603
        CALLED = True
        return ndimage.label(block)

    for function in (counts, sets, lambda block: (globals(), ndimage.label(block)), lambda block: block + 1, len):
        assert with_twin(function) is function


def test_a_function_of_cupyx_is_that_of_scipy_on_the_host(monkeypatch):
    def gaussian_filter(image):
        raise NotImplementedError(type(image))

    gaussian_filter.__module__ = "cupyx.scipy.ndimage._filters"
    cupyx = types.SimpleNamespace(gaussian_filter=gaussian_filter)
    scipy = types.SimpleNamespace(gaussian_filter=lambda image: image + 1)
    monkeypatch.setitem(sys.modules, "cupyx.scipy.ndimage", cupyx)
    monkeypatch.setitem(sys.modules, "scipy.ndimage", scipy)
    for function in (gaussian_filter, ResultsAt(gaussian_filter), functools.partial(gaussian_filter)):
        assert on_host(function)(np.ones(2)).tolist() == [2, 2]
    cupyx.gaussian_filter = None
    assert on_host(gaussian_filter) is gaussian_filter, "of another module"


def test_a_method_on_host_of_a_class_of_the_user_is_not_called():
    class Filter:
        def __call__(self, image):
            return image + 1

        def on_host(self):
            raise AssertionError

    function = Filter()
    assert on_host(function) is function


def test_an_array_that_is_not_one_of_numpy_is_a_lack_of_pandas():
    lack = TypeError(
        "factorize requires a Series, Index, ExtensionArray, np.ndarray or NumpyExtensionArray got ndarray."
    )
    assert reason_to_fall_back(raised_in("pandas.core", lack))
    assert not reason_to_fall_back(raised_in("pandas.core", TypeError(str(lack).replace("got ndarray", "got int"))))
