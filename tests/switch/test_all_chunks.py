"""What a cell for GPUs computes from arrays agrees with NumPy, for any chunks."""

import dask.array as da
import numpy as np
import pytest
from dask.array import reductions
from device import MARKS, cupy

from jupyter_gpudask.overlay import CellRecord
from jupyter_gpudask.patches.apply import patches
from jupyter_gpudask.patches.arrays import extremes
from jupyter_gpudask.switch.context import switched_to

pytestmark = [*MARKS, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True, scope="module")
def patches_of_workers():
    patches.apply("worker")


NUMBERS = np.random.default_rng(0).permutation(60).reshape(6, 10) / 7
CHUNKS = {"whole": ((6,), (10,)), "uneven": ((1, 3, 2), (7, 1, 2)), "empty": ((0, 4, 0, 2), (10,))}
AXES = (None, 0, 1)
UNKNOWN = np.where(NUMBERS > 8, np.nan, NUMBERS)
DATA = {"numbers": NUMBERS, "unknown": UNKNOWN, "halves": NUMBERS.astype("float32"), "whole": (NUMBERS * 7).astype(int)}


def changed(x):
    x = x.copy()
    x[x > 5] = -1
    x[2] = 0.5
    return x


def called(name, *args, **options):
    """A function of `dask.array` with its other arguments."""
    return lambda x: getattr(da, name)(x, *args, **options)


OPERATIONS = {
    **{
        f"{name} {axis}": called(name, axis=axis)
        for name in "all any argmax argmin max mean min nanmax nanmean nanmin nansum prod std sum var".split()
        for axis in AXES
    },
    **{
        f"{name} {axis}": called(name, axis=axis)
        for name in "cumprod cumsum flip median nanargmax nanargmin nancumsum nanstd nanvar".split()
        for axis in (0, 1)
    },
    **{f"quantile {q} {axis}": called("quantile", q, axis=axis) for q in (0.3, [0.25, 0.5, 0.9]) for axis in (0, 1)},
    **{
        name: called(name)
        for name in (
            "abs angle ceil corrcoef cos cov diagonal diff exp fix flipud fliplr floor frexp isnan log1p modf "
            "nan_to_num negative ravel rint rot90 round sign signbit sqrt square squeeze tanh transpose tril triu "
            "trunc unique"
        ).split()
    },
    "along axis": lambda x: da.apply_along_axis(lambda row: row * 2, 0, x.rechunk(-1)),
    "average": lambda x: da.average(x, axis=0, weights=da.arange(6, chunks=2)),
    "bincount": lambda x: da.bincount((x[:, 0] * 7).astype(int), minlength=60),
    "boolean": lambda x: x[x > 4],
    "clip": lambda x: da.clip(x, 2, 5),
    "compress": lambda x: da.compress([True, False, True, True, False, False], x, axis=0),
    "concatenate": lambda x: da.concatenate([x, x * 2], axis=1),
    "diag": lambda x: da.diag(x[:, 0]),
    "digitize": lambda x: da.digitize(x, np.array([1.0, 3.0, 6.0])),
    "dot": lambda x: x.dot(x.T),
    "einsum": lambda x: da.einsum("ij,kj->ik", x, x),
    "fancy": lambda x: x[[4, 0, 2]],
    "fft": lambda x: da.fft.fft(x.rechunk((None, -1)), axis=1),
    "gradient": lambda x: da.gradient(x.rechunk(-1), axis=1),
    "histogram": lambda x: da.histogram(x, bins=5, range=(0, 9))[0],
    "matmul": lambda x: x @ x.T,
    "moments": lambda x: da.reductions.moment(x, 3, axis=0),
    "norm": lambda x: da.linalg.norm(x, axis=1),
    "outer": lambda x: da.outer(x[:, 0], x[0]),
    "overlap": lambda x: x.rechunk((3, 10)).map_overlap(lambda b: b + 1, depth=1, boundary="reflect"),
    "pad": lambda x: da.pad(x, 2, mode="reflect"),
    "percentile": lambda x: da.percentile(x[0].rechunk(-1), [10, 50]),
    "qr": lambda x: abs(da.linalg.qr(x.T.rechunk((10, 6)))[1]),
    "repeat": lambda x: da.repeat(x, 2, axis=0),
    "reshape": lambda x: x.reshape((3, 20)),
    "roll": lambda x: da.roll(x, 3, axis=1),
    "searchsorted": lambda x: da.searchsorted(da.arange(9, chunks=9), x),
    "setitem": changed,
    "slice": lambda x: x[::-2, 3:8:2],
    "sorted": lambda x: da.topk(x, 3, axis=1),
    "lowest": lambda x: da.topk(x, -2, axis=0),
    "argtopk": lambda x: da.argtopk(x, 3, axis=1),
    "stack": lambda x: da.stack([x, x + 1], axis=2),
    "svd": lambda x: da.linalg.svd(x.T.rechunk((5, 6)))[1],
    "take": lambda x: da.take(x, [5, 1], axis=0),
    "tensordot": lambda x: da.tensordot(x, x, axes=((1,), (1,))),
    "trace": lambda x: x.trace(),
    "vdot": lambda x: da.vdot(x, x),
    "vnorm": da.linalg.norm,
    "where": lambda x: da.where(x > 4, x, 0),
}


NUMBER_BY_NUMBER = (
    "arccosh arcsin arcsinh arctan arctanh cbrt conj cosh deg2rad exp2 expm1 fabs imag isfinite isinf isneginf log "
    "log10 log2 logical_not rad2deg real reciprocal sin sinc sinh tan"
).split()
COMPLEX = "abs angle conj cos exp imag isfinite isnan log real reciprocal round sin sinc sqrt square tan".split()
TAKEN_APART = "around degrees fix frexp isreal modf nan_to_num positive radians rint trunc".split()
PAIR_BY_PAIR = (
    "allclose arctan2 copysign equal float_power floor_divide fmax fmin fmod greater hypot isclose less_equal "
    "logaddexp logaddexp2 logical_or maximum minimum mod nextafter not_equal power remainder subtract true_divide"
).split()
SIGNED = np.array([[-0.0, 0.0, -1.5, 2.0], [-np.inf, np.inf, np.nan, 3.5], [7.25, -2.0, 0.25, 1e300]])


def parts(result):
    return result if isinstance(result, tuple) else (result,)


def values(result):
    computed = da.compute(*parts(result), scheduler="sync")
    return [part.get() if isinstance(part, cupy.ndarray) else part for part in computed]


@pytest.mark.parametrize(
    ("data", "chunks"),
    [*(("numbers", each) for each in CHUNKS), *((each, "uneven") for each in DATA if each != "numbers")],
)
@pytest.mark.parametrize("name", list(OPERATIONS))
def test_it_agrees_with_numpy(name, data, chunks):
    operation, numbers = OPERATIONS[name], DATA[data]
    if (name, data) == ("qr", "unknown"):
        pytest.skip("LAPACK and cuSOLVER leave undefined what becomes of NaN")
    whole = (name, data) in (
        ("argmax None", "unknown"),
        ("argmin None", "unknown"),
    )  # else any of the NaN
    whole |= chunks == "empty" and name in ("std None", "var None")  # else NaN
    try:
        on_cpu = operation(da.from_array(numbers, chunks=CHUNKS["whole" if whole else chunks]))
        expected = values(on_cpu)
    except Exception as error:  # noqa: BLE001
        pytest.skip(f"Dask does not do it with NumPy: {error!r}")
    with switched_to("cupy", "pandas"):
        results = operation(da.from_array(numbers, chunks=CHUNKS[chunks]))
        found = values(results)
    assert {type(part._meta) for part in parts(results)} == {cupy.ndarray}
    for one, other, promised in zip(found, expected, parts(on_cpu), strict=True):
        assert np.shape(one) == np.shape(other)
        assert np.asarray(one).dtype in (np.asarray(other).dtype, promised.dtype)  # which differ in Dask's percentile
        exact = data != "halves"
        np.testing.assert_allclose(one, other, rtol=1e-9 if exact else 1e-4, atol=1e-12 if exact else 1e-4)


SIGNED_NAN = np.array([2.0, np.nan, -1.0, np.copysign(np.nan, -1.0), 5.0, -np.inf])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    "operation",
    [
        lambda x: da.median(x, axis=0),
        lambda x: da.nanmedian(x, axis=0),
        lambda x: da.topk(x, 3),
        lambda x: da.topk(x, -3),
        lambda x: da.unique(x).map_blocks(np.sort),
        lambda x: da.isin(da.arange(-2.0, 6, chunks=3), x),
        lambda x: x[da.argtopk(x, 4)],
        lambda x: x.map_blocks(np.argsort),
        lambda x: x.rechunk(-1).map_blocks(lambda block: np.sort(np.partition(block, 2)[:3]), dtype=x.dtype),
    ],
)
def test_nan_of_both_signs_is_sorted_last(operation, dtype):
    compare(operation, SIGNED_NAN.astype(dtype))


DIVIDENDS = np.array([1.0, -1.0, 0.0, 0.3, 2.5, -7.0, 6.0, 1.2, 1e9, -0.1, 3.0, 9.9])
QUOTIENTS = {
    "floor": lambda x: x // 0.1,
    "rest": lambda x: x % 0.1,
    "of a number": lambda x: 7 // x,
    "rest of a number": lambda x: -7 % x,
    "by a negative number": lambda x: x // -3,
    "rest of infinity": lambda x: x % np.inf,
    "of pairs": lambda x: (x[:, None] // x)[:, 2:],
    "rest of pairs": lambda x: (x[:, None] % x)[:, 2:],
    "divmod": lambda x: da.stack(divmod(x, 0.3)),
    "remainder": lambda x: da.remainder(x, da.asarray([0.1] * 12)),
    "floor_divide": lambda x: np.floor_divide(x, -0.7),
}
LARGE = np.array([2**60 + 1, 2**60, 2**60 + 2, 2**60 + 1])


def in_parts(name):
    return lambda x: da.stack([da.asarray(part, like=x) for part in parts(getattr(da, name)(x))])


def of_pairs(name):
    return lambda x: getattr(da, name)(x, x[::-1])


def in_range(limits, density):
    return lambda x: da.histogram(x, bins=5, range=limits(x), density=density)


INFINITE = np.array([[3, 1, np.inf], [np.inf, np.inf, 2], [-np.inf, 0, np.inf], [np.nan, np.inf, 1]])
COMPARED = {
    **{
        f"number {name}": (called(name), SIGNED)
        for name in ["abs", "angle", "ceil", "exp", "round", "sign", "signbit", "sqrt", *NUMBER_BY_NUMBER]
    },
    **{f"complex number {name}": (called(name), NUMBERS[::2] - 1j * UNKNOWN[1::2]) for name in COMPLEX},
    **{f"parts {name}": (in_parts(name), SIGNED[:, ::-1]) for name in TAKEN_APART},
    **{f"pair {name}": (of_pairs(name), SIGNED) for name in PAIR_BY_PAIR},
    **{
        f"reduction {name} {axis}": (called(name, axis=axis), SIGNED)
        for name in "argmax argmin cumsum max mean min nanmax nansum std sum".split()
        for axis in (0, 1)
    },
    **{f"large integers {name}": (called(name), LARGE) for name in ("nanargmax", "nanargmin")},
    **{
        f"{name} of infinities {axis} {keepdims}": (called(name, axis=axis, keepdims=keepdims), INFINITE)
        for name in ("median", "nanmedian")
        for axis in (0, 1, -1)
        for keepdims in (False, True)
    },
    **{
        f"quantile {q} of infinities, {method}": (called("quantile", q, axis=1, method=method), INFINITE)
        for q in (0, 0.5, [0.3, 1])
        for method in ("linear", "midpoint", "lower")
    },
    **{
        f"quantile of {dtype}, {method}": (
            called("quantile", [0.1, 0.6], axis=0, method=method),
            np.array([1, 2, 4, 7, 250], dtype) + np.array(2**62 * (dtype == "int64"), dtype),
        )
        for dtype in ("int64", "uint8", "float32")
        for method in ("lower", "higher", "nearest")
    },
    **{
        f"{name} of {dtype}": (called(name, *q, axis=0), np.array([1, 2, 4, 7], dtype))
        for name, *q in (("median",), ("quantile", [0.2, 0.6]))
        for dtype in ("float16", "float32")
    },
    **{
        f"percentiles of {length} equal values, {method}": (called("percentile", [25, 50, 75], method=method), numbers)
        for length, numbers in (("few", np.array([-2, -1, 2, 1.5, -1])), ("many", NUMBERS[:3].ravel() // 2 / 2))
        for method in ("linear", "lower", "nearest")
    },
    **{
        f"histogram of {number} with density {density}": (in_range(limits, density), NUMBERS)
        for number, limits in enumerate([lambda x: [x.min(), x.max()], lambda x: (0, x.max()), lambda _: (0, 20)])
        for density in (None, False, True)
    },
}


@pytest.mark.parametrize(("operation", "numbers"), COMPARED.values(), ids=COMPARED)
def test_each_value_is_that_of_numpy_also_of_infinities_nan_and_zeros_of_both_signs(operation, numbers):
    compare(operation, numbers)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
@pytest.mark.parametrize("operation", QUOTIENTS.values(), ids=QUOTIENTS)
def test_quotients_and_remainders_are_those_of_numpy(operation, dtype):
    compare(operation, DIVIDENDS.astype(dtype))


@pytest.mark.parametrize("operation", [lambda x: x // 3, lambda x: x % 7, lambda x: divmod(x, 2)[0]])
def test_quotients_and_remainders_of_large_unsigned_integers_are_exact(operation):
    numbers = np.array([2**64 - 1, 2**63 + 5, 2**53 + 1, 1, 0], "uint64")
    with switched_to("cupy", "pandas"):
        found = values(operation(da.from_array(numbers, chunks=2)))
    assert found[0].dtype == numbers.dtype
    assert found[0].tolist() == operation(numbers).tolist()


@pytest.mark.parametrize(
    ("operation", "numbers"),
    [
        (da.i0, np.array([7, -128, 0], "int8")),
        (da.i0, np.array([255, 1], "uint8")),
        (da.sinc, np.array([7, 0, 3])),
        (lambda x: da.float_power(x, 2), np.array([2 - 1j, 5, 0.1j], "complex64")),
        (lambda x: da.fmod(x, 3), np.array([2**53 + 1, -(2**53) - 1, 7, -7])),
        (lambda x: da.fmod(x, -3), np.array([2**53 + 1, -7, 5], "int64")),
        (lambda x: 2**x, np.array([0, 3, 62])),
        (lambda x: x**x, np.array([0, 3, 5], "int16")),
        (lambda x: x.astype("uint8"), np.array([-5 + 2j, 300, 2.5 - 1j])),
        (lambda x: x.astype("uint64"), np.array([-5 + 2j, 300, 2.5 - 1j])),
        (lambda x: da.histogram(x, bins=np.array([-9, 0, 1, 9]))[0], np.array([7, -7, 0, -128, -1, 2], "int8")),
        (lambda x: da.histogram(x, bins=4, range=(-9, 9))[0], np.array([7, -7, 0, -128, -1, 2], "int32")),
    ],
)
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_numbers_are_computed_in_the_precision_of_numpy(operation, numbers):
    expected = values(operation(da.from_array(numbers, chunks=2)))
    with switched_to("cupy", "pandas"):
        found = values(operation(da.from_array(numbers, chunks=2)))
    assert found[0].dtype == expected[0].dtype
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-14, atol=1e-15)  # NumPy's sine of 7 * pi is not 0


LEVELS = np.random.default_rng(1).integers(0, 250, (6, 10)).astype("uint8")
DISTINCT = np.array([[1, np.nan, -2, np.nan], [-np.inf, 1, 2**0.5, np.nan]])

WHERE_DASK_DIFFERS = {
    **{
        f"{name} among equal values of {kind}": (getattr(np, name), numbers)
        for name in ("argmax", "argmin", "nanargmax", "nanargmin")
        for kind, numbers in {
            "integers": LEVELS % 5,
            "floats": LEVELS % 5 / 2,
            "booleans": LEVELS > 100,
            "a cube": np.stack([LEVELS % 3] * 2),
        }.items()
    },
    **{
        f"{name} with a dtype": (operation, LEVELS)
        for name, operation in {
            "product": lambda x: np.multiply(x, x, dtype="int64"),
            "sum with a number": lambda x: np.add(x, 100, dtype=float),
            "root": lambda x: np.sqrt(x, dtype=float),
            "comparison": lambda x: np.equal(x, x[0], dtype=bool),
            "average": lambda x: np.average(x, axis=0, weights=np.arange(6, dtype="uint8") * 40),
        }.items()
    },
    **{
        f"{name} of {numbers.dtype}": (operation, numbers)
        for name, operation in {
            "x @ y": lambda x: x @ x.T,
            "x @ y of one axis": lambda x: x[0] @ x[1],
            "dot": lambda x: np.dot(x, x.T),
            "tensordot": lambda x: np.tensordot(x, x, axes=((0, 1), (0, 1))),
            "einsum": lambda x: np.einsum("ij,kj->ik", x, x),
            "einsum of three": lambda x: np.einsum("i,j,k->ijk", x[0], x[1], np.arange(3, dtype="uint16")),
            "einsum of one": lambda x: np.einsum("ij->i", x),
            "einsum with a dtype": lambda x: np.einsum("ij->i", x, dtype="int64"),
        }.items()
        for numbers in (LEVELS, LEVELS > 100, LEVELS.astype("int8"), LEVELS.astype("int32"))
    },
    **{
        f"distinct {numbers.dtype}": (
            lambda x: np.unique(x, return_index=True, return_inverse=True, return_counts=True),
            numbers,
        )
        for numbers in (DISTINCT, DISTINCT.astype("float32"), DISTINCT.astype("float16"), LEVELS % 5)
    },
}


@pytest.mark.parametrize("size", [6, 2, 1])
@pytest.mark.parametrize(("operation", "numbers"), WHERE_DASK_DIFFERS.values(), ids=WHERE_DASK_DIFFERS)
def test_results_are_those_of_numpy_where_those_of_dask_are_not(operation, numbers, size):
    expected = operation(numbers)
    with switched_to("cupy", "pandas", CellRecord(fallback="host")):
        found = values(operation(da.from_array(numbers, chunks=size)))
    for one, other in zip(found, expected if isinstance(expected, tuple) else [expected], strict=True):
        assert np.asarray(one).dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-14)


def test_negative_powers_of_integers_are_refused_as_in_numpy():
    for backend in ("numpy", "cupy"):
        with switched_to(backend, "pandas"), pytest.raises(ValueError, match="negative integer powers"):
            (2 ** da.from_array(np.array([3, -1]), chunks=1)).compute(scheduler="sync")


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("name", ["nanargmax", "nanargmin"])
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_places_of_extremes_are_those_of_numpy_beside_blocks_of_nan_and_infinities(name, axis, dtype):
    numbers = np.full((4, 4), np.nan, dtype)
    numbers[:2, :2], numbers[2, 2], numbers[3, 3] = [[1, 2], [3, 4]], 5, 6
    compare(lambda x: getattr(da, name)(x, axis=axis), numbers)
    numbers[0, 1], numbers[1, 0] = np.inf, -np.inf
    compare(lambda x: getattr(da, name)(x, axis=axis), numbers)


@pytest.mark.parametrize("find", [da.std, da.var, da.nanvar, lambda x, axis: da.moment(x, 3, axis=axis)])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_a_variance_of_many_blocks_leaves_out_empty_ones(find, axis):
    numbers = np.random.default_rng(0).normal(size=(60, 4))
    for missing in (False, True):
        numbers[3, 2] = np.nan if missing else 1.0
        with switched_to("cupy", "pandas"):
            x = da.from_array(numbers, chunks=(3, 2))
            found = values(find(x[x[:, 0].rechunk(3) > 1], axis=axis))
        expected = values(find(da.from_array(numbers[numbers[:, 0] > 1], chunks=-1), axis=axis))
        np.testing.assert_allclose(found[0], expected[0])


@pytest.mark.parametrize("axis", AXES)
def test_places_in_nothing_but_nan_are_refused_as_in_numpy(axis):
    numbers = np.array([[np.nan, np.nan], [1.0, np.nan]]) * (1 if axis else np.nan)
    for backend in ("numpy", "cupy"):
        with switched_to(backend, "pandas"), pytest.raises(ValueError, match="All NaN slice"):
            da.nanargmax(da.from_array(numbers, chunks=1), axis=axis).compute(scheduler="sync")


def compare(operation, numbers):
    expected = values(operation(da.from_array(numbers, chunks=2)))
    with switched_to("cupy", "pandas"):
        found = values(operation(da.from_array(numbers, chunks=2)))
    for one, other in zip(found, expected, strict=True):
        assert np.asarray(one).dtype == np.asarray(other).dtype
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
        if np.iscomplexobj(other):
            continue
        size = np.abs(np.asarray(other, float))
        known = (size == 0) | (size > 1e-12)
        np.testing.assert_array_equal(np.signbit(one)[known], np.signbit(other)[known])


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [(0,), (1,), (2,), (0, 1, 2)])
@pytest.mark.parametrize("length", [1, 3])
def test_places_in_blocks_without_structures_are_chosen_as_in_dask(length, axis, keepdims):
    shape = tuple(length if n in axis else 4 for n in range(3))
    random = np.random.default_rng(0)
    data = {"vals": random.integers(0, 3, shape), "arg": np.arange(np.prod(shape)).reshape(shape)}
    options = {"axis": axis, "keepdims": keepdims}
    expected = reductions.arg_agg(extremes.argmin, data, **options)
    np.testing.assert_array_equal(extremes.arg_agg(extremes.argmin, data, **options), expected)
    if len(axis) == 1:
        combined = extremes.arg_combine(extremes.argmin, data, axis=axis)
        np.testing.assert_array_equal(
            combined["arg"].squeeze(axis[0]), expected.reshape(combined["arg"].squeeze(axis[0]).shape)
        )
        assert combined["vals"].shape == combined["arg"].shape


@pytest.mark.parametrize("axis", [None, 0, 1, -2])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_the_place_of_several_nan_is_that_of_the_first(name, axis, monkeypatch):
    values = np.array([[0, np.nan, 3, 1.5], [np.nan, 1, np.nan, 0.5], [1.5, np.nan, np.nan, 1]])
    compare(lambda x: getattr(da, name)(x, axis=axis), values)
    compare(lambda x: getattr(da, name)(x, axis=axis), np.nan_to_num(values).astype(int))

    function, original = getattr(extremes, name), getattr(extremes.chunk, name)

    def last_nan(block, axis=None, **options):
        """As CuPy's, which return the place of any NaN."""
        if block.dtype == bool:
            return original(block, axis, **options)
        missing = np.flip(np.isnan(block), axis)
        length = block.size if axis is None else block.shape[axis]
        return np.where(np.isnan(block).any(axis), length - 1 - missing.argmax(axis), original(block, axis, **options))

    expected = getattr(np, name)(values, axis=axis)
    monkeypatch.setattr(extremes.chunk, name, last_nan)
    assert not np.array_equal(last_nan(values, axis), expected)
    assert np.array_equal(function(values, axis), expected)
