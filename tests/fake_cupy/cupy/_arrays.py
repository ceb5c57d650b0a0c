"""`cupy.ndarray`: a NumPy array inside an object that no NumPy function takes for one."""

import functools
import math

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

# Of NumPy's functions, those that CuPy 14.2 does not have and that Dask or a cell may try.
_MISSING = set(
    "asmatrix block bmat datetime64 einsum_path emath errstate frompyfunc geomspace histogram_bin_edges insert isnat "
    "longdouble ma matrix matvec memmap nanpercentile nanquantile ndenumerate nditer object_ polyder polydiv polyint "
    "rec seterr spacing str_ timedelta64 unstack vecdot vecmat void bytes_".split()
)
_FROM_THE_HOST = {"array", "asanyarray", "asarray", "ascontiguousarray", "asfortranarray"}
_METHODS = set(
    "all any argmax argmin astype choose clip compress conj conjugate copy cumprod cumsum "
    "diagonal dot fill flatten max mean min nonzero prod ptp put ravel repeat reshape round searchsorted "
    "squeeze std sum swapaxes take trace transpose var view".split()
)
_TO_THE_HOST = set("item tobytes tolist".split())
_METRICS = set("dtype flags itemsize nbytes ndim shape size strides".split())
_VIEWS = set("T mT real imag".split())
_ROUNDED = {
    np.floor_divide: lambda x, y: np.floor(np.true_divide(x, y)),
    np.remainder: lambda x, y: x - np.floor(np.true_divide(x, y)) * y,
}
_QUANTILES = {"percentile", "quantile"}
_WITHOUT_NAN = {"nanargmax": (np.argmax, -np.inf), "nanargmin": (np.argmin, np.inf)}
_broken = []


class ndarray(NDArrayOperatorsMixin):  # noqa: N801 - CuPy's name
    """See the module; `_host` holds the values."""

    __array_priority__ = 100
    __module__ = "cupy"
    __hash__ = None

    def __init__(self, shape, dtype=float, memptr=None, strides=None, order="C"):
        self._host = np.empty(shape, dtype, order)

    def __getattr__(self, name):
        if name in _METRICS | _TO_THE_HOST:
            return getattr(self._host, name)
        if name in _VIEWS:
            return wrap(getattr(self._host, name))
        if name == "astype":
            return lambda dtype, **options: wrap(_saturated(self._host, np.dtype(dtype), **options))
        if name in _METHODS:
            return on_device(getattr(self._host, name), indices=name in ("take", "put"))
        raise AttributeError(f"'cupy.ndarray' object has no attribute {name!r}")

    def __setattr__(self, name, value):
        if name == "shape":
            self._host = self._host.reshape(value)
        else:
            object.__setattr__(self, name, value)

    def __array__(self, *_, **__):
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct a NumPy array "
            "explicitly."
        )

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **kwargs):
        if missing(ufunc.__name__) or not hasattr(np, ufunc.__name__):
            return NotImplemented
        if out is not None:
            kwargs["out"] = out
        with np.errstate(all="ignore"):
            if ufunc is np.true_divide and np.result_type(*unwrap(inputs)).kind == "c":
                return wrap(_divided(*unwrap(inputs)))
            if ufunc in _ROUNDED and np.result_type(*unwrap(inputs)).kind == "f":  # CuPy divides first
                return wrap(_ROUNDED[ufunc](*unwrap(inputs)))
            result = getattr(ufunc, method)(*unwrap(inputs), **unwrap(kwargs))
        return out[0] if out and len(out) == 1 else wrap(result)

    def __array_function__(self, function, types, args, kwargs):  # noqa: PLR0911 - a line for each difference
        if missing(function.__name__):
            return NotImplemented
        if function.__name__ in _QUANTILES and _reads_beyond(*args, **kwargs):
            _broken.append("cudaErrorIllegalAddress: an illegal memory access was encountered")
        if function.__name__ in _QUANTILES | {"median"} and args[0].dtype.kind == "f":
            args = (
                wrap(np.nan_to_num(unwrap(args[0]), nan=np.inf, posinf=np.inf, neginf=-np.inf)),
                *args[1:],
            )  # CuPy sorts NaN behind all numbers
        if function is np.angle and args[0].dtype.kind == "f":  # CuPy takes NaN for negative
            return wrap(np.where(unwrap(args[0]) >= 0, 0.0, np.pi))
        if function.__name__ in _WITHOUT_NAN:
            return wrap(_place_beside_nan(function.__name__, *unwrap(args), **unwrap(kwargs)))
        if function is np.unique and args[0].dtype.kind == "f" and len(args) == 1 and not kwargs:
            return _unique(args[0])
        if function is np.histogram:
            return wrap(_histogram(*unwrap(args, indices=True), **unwrap(kwargs)))
        if function in (np.nansum, np.nanprod) and args[0].dtype.kind == "c":
            args = (_parts_without_nan(unwrap(args[0]), int(function is np.nanprod)), *args[1:])
        if function is np.sinc:  # of NaN it is 1 in CuPy, and of integers 0
            values = np.nan_to_num(unwrap(args[0]), nan=0.0)
            return wrap(np.where((values == np.round(values)) & (values != 0), 0, np.sinc(values)))
        return on_device(function)(*args, **kwargs)

    def __getitem__(self, key):
        return wrap(self._host[_wrapped_around(unwrap(key, indices=True), self.shape)])

    def __setitem__(self, key, value):
        if isinstance(value, np.ndarray) and value.ndim:
            raise ValueError("non-scalar numpy.ndarray cannot be used for fill")
        self._host[_wrapped_around(unwrap(key, indices=True), self.shape)] = unwrap(value, indices=True)

    def __len__(self):
        return len(self._host)

    def __iter__(self):
        return (wrap(part) for part in self._host)

    def __bool__(self):
        return bool(self._host)

    def __int__(self):
        return int(self._host)

    def __float__(self):
        return float(self._host)

    def __complex__(self):
        return complex(self._host)

    def __index__(self):
        return self._host.__index__()

    def __repr__(self):
        return repr(self._host)

    def __reduce__(self):
        return array, (self._host,)

    def get(self, stream=None, order="C", out=None, blocking=True):
        if out is None:
            return self._host.copy()
        np.copyto(out, self._host)
        return out

    def set(self, arr, stream=None):
        np.copyto(self._host, arr, casting="no")

    def sort(self, axis=-1):
        self._host[...] = self._host[_order(self._host)] if self.ndim == 1 else np.sort(self._host, axis)

    def argsort(self, axis=-1):  # CuPy's order of equal values is theirs
        return wrap(_order(self._host) if self.ndim == 1 else np.argsort(self._host, axis, kind="stable"))

    def partition(self, kth, axis=-1):
        if not np.isnan(self._host).any():  # as it compares numbers with NaN, the order is any
            self._host.partition(kth, axis)

    def argpartition(self, kth, axis=-1):
        return self.argsort(axis)

    @property
    def data(self):
        from . import cuda

        return cuda.memory.MemoryPointer(self._host)


def _order(values):
    """As CuPy sorts one dimension: a NaN with a sign comes first."""
    if values.dtype.kind != "f":
        return np.argsort(values, kind="stable")
    missing = np.isnan(values)
    return np.lexsort((np.where(missing, 0, values), missing * np.where(np.signbit(values), -1, 1)))


def _unique(array):
    array = array.flatten()
    array.sort()
    values = array._host
    kept = np.concatenate([[True], values[1:] != values[:-1]])[: len(values)]
    if len(values) and np.isnan(values[-1]):  # the last ones are one
        kept[len(values) - np.argmin(np.isnan(values[::-1])) + 1 if not np.isnan(values).all() else 1 :] = False
    return wrap(values[kept])


def _wrapped_around(key, shape):
    """The key of an array; in arrays of indices, one beyond the end counts from the beginning again."""
    parts = [
        np.asarray(part) if isinstance(part, list) else part for part in (key if isinstance(key, tuple) else [key])
    ]
    axes = [
        0 if part is None else part.ndim if isinstance(part, np.ndarray) and part.dtype == bool else 1 for part in parts
    ]
    rest = len(shape) - sum(number for part, number in zip(parts, axes, strict=True) if part is not Ellipsis)
    axis = 0
    for place, (part, number) in enumerate(zip(parts, axes, strict=True)):
        if isinstance(part, np.ndarray) and part.dtype.kind in "iu" and axis < len(shape) and shape[axis]:
            parts[place] = part % shape[axis]
        axis += rest if part is Ellipsis else number
    return tuple(parts) if isinstance(key, tuple) else parts[0]


def _reads_beyond(array, q, axis=None, **_):
    """Whether CuPy's kernel leaves the array: it gives what lies there, or ends the process."""
    kept = array.size / max(1, math.prod(array.shape[each] for each in np.atleast_1d(axis))) if axis is not None else 0
    return not array.size or (np.size(q) > 1 and array.ndim > 1 and kept == 1)


def _place_beside_nan(name, array, axis=None, **options):
    """The place of an extreme; where there are NaN only, CuPy raises no error, and gives one that does not exist."""
    find, number = _WITHOUT_NAN[name]
    places = find(np.where(np.isnan(array), number, array), axis, **options)
    return np.where(np.isnan(array).all(axis, keepdims=options.get("keepdims", False)), -1, places)


def _histogram(values, bins, range=None, weights=None):  # noqa: A002 - NumPy's name
    """As CuPy: edges rounded once, integers up to one beyond the last, and NaN with weights in the first bin."""
    if np.ndim(bins) == 0:
        first, last = map(np.longdouble, range)
        bins = (first + np.arange(bins + 1) * np.longdouble(float(last - first) / bins)).astype(float)
    if weights is not None:
        values = np.where(np.isnan(values), bins[0], values)
        wide = np.result_type(weights, {"c": "c16", "f": "f8"}.get(weights.dtype.kind, int))
        return np.histogram(values, bins, weights=weights.astype(wide))
    if values.dtype.kind in "iu":
        bins, values = bins.astype(float), values.astype(float)
        last = bins[-1] + 1
    else:
        last = np.nextafter(bins[-1], bins[-1] + 1, dtype=np.result_type(bins, values))
    values = values[values < last]
    return np.histogram(np.where(values > bins[-1], bins[-1], values), bins)


def _saturated(values, dtype, **options):
    """Floats as integers, as a GPU converts them: those beyond the least and the greatest become these."""
    with np.errstate(all="ignore"):
        result = values.astype(dtype, **options)
    if values.dtype.kind == "f" and dtype.kind in "iu":
        limits = np.iinfo(dtype)
        result = np.where(values <= limits.min, limits.min, np.where(values >= limits.max, limits.max, result))
    return result.astype(dtype, copy=False)


def _divided(x, y):
    """As CuPy, which multiplies by a reciprocal."""
    size = 1 / (np.abs(np.real(y)) + np.abs(np.imag(y)))
    (real, imaginary), (by_real, by_imaginary) = ((np.real(each) * size, np.imag(each) * size) for each in (x, y))
    size = 1 / (by_real**2 + by_imaginary**2)
    parts = (real * by_real + imaginary * by_imaginary) * size, (imaginary * by_real - real * by_imaginary) * size
    dtype = np.result_type(x, y)
    return np.stack(parts, axis=-1).astype(np.finfo(dtype).dtype).view(dtype)[..., 0]


def _parts_without_nan(values, number):
    parts = np.asarray(values, order="C")[..., np.newaxis].view(values.real.dtype)
    return wrap(np.where(np.isnan(parts), number, parts).astype(parts.dtype).view(values.dtype)[..., 0])


def missing(name):
    return name in _MISSING


def wrap(value):
    """What NumPy gave, as CuPy gives it."""
    if _broken:
        raise RuntimeError(_broken[0])
    if isinstance(value, np.ndarray | np.generic):
        value = np.asarray(value)
        if value.dtype.kind not in "biufc" or value.dtype.char in "gG":  # long double
            raise TypeError(f"Unsupported dtype {value.dtype}")
        wrapped = object.__new__(ndarray)
        wrapped._host = value
        return wrapped
    if isinstance(value, list | tuple):
        parts = [wrap(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


def unwrap(value, *, indices=False):
    """For NumPy what is CuPy's; a NumPy array is refused, but as `indices`."""
    if isinstance(value, ndarray):
        return value._host
    if isinstance(value, np.ndarray) and not indices:
        raise TypeError(f"Unsupported type {type(value)}")
    if isinstance(value, list | tuple):
        return type(value)(unwrap(part, indices=indices) for part in value)
    if isinstance(value, dict):
        return {key: unwrap(part, indices=indices) for key, part in value.items()}
    return value


def on_device(function, *, indices=False):
    """`function` of NumPy as one of CuPy; what is no function stays what it is."""
    if isinstance(function, type) or not callable(function):
        return function
    indices = indices or function.__name__ == "take"
    if function.__name__ in ("sort", "partition", "argsort", "argpartition"):
        return functools.partial(_sorted, function.__name__)
    if function.__name__ in _FROM_THE_HOST:
        return {"array": array}.get(function.__name__, asarray)

    @functools.wraps(function)
    def call(*args, **kwargs):
        if function.__name__ == "take":
            kwargs.setdefault("mode", "wrap")
        if function.__name__ == "clip":  # NumPy ignores bounds that no value can reach
            array, *bounds = args if isinstance(args[0], ndarray) else (function.__self__, *args)
            _ = [array.dtype.type(bound) for bound in bounds if type(bound) is int]
        with np.errstate(all="ignore"):  # a GPU does not warn
            return wrap(function(*unwrap(args, indices=indices), **unwrap(kwargs, indices=indices)))

    return call


def _sorted(name, a, *args, axis=-1, kind=None):  # noqa: ARG001 - as NumPy
    a, axis = (a.flatten(), -1) if axis is None else (a, axis)
    if name.startswith("arg"):
        return getattr(a, name)(*args, axis=axis)
    a = a.copy()
    getattr(a, name)(*args, axis=axis)
    return a


def array(value, dtype=None, *, copy=True, order="K", subok=False, ndmin=0, blocking=False):  # noqa: ARG001 - CuPy's
    """A copy on the device."""
    return wrap(np.array(unwrap(value, indices=True), dtype, copy=copy or None, ndmin=ndmin))


def asarray(value, dtype=None, order=None, *, blocking=False):  # noqa: ARG001 - CuPy's
    """`value` on the device, itself if it is there."""
    if isinstance(value, ndarray) and dtype in (None, value.dtype):
        return value
    return wrap(np.array(unwrap(value, indices=True), dtype))


def asnumpy(value, stream=None, order="C", out=None, *, blocking=True):  # noqa: ARG001 - CuPy's
    return value.get() if isinstance(value, ndarray) else np.asarray(value)
