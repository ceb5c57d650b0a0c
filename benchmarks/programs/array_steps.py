"""The operations on arrays that a random program can have.

Each function returns the text of a step, or the texts for Dask and for NumPy; `None` if it does not fit the value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

ARRAY_STEPS: list[Any] = []


def _step(*, weight: int = 1, opens_order: bool = False) -> Callable[[Any], Any]:
    """Add a function to the operations, to be chosen as often as `weight` says."""

    def add(function: Any) -> Any:
        function.needs_order, function.opens_order, function.ends_order = False, opens_order, opens_order
        ARRAY_STEPS.extend([function] * weight)
        return function

    return add


def _is_real(v: Any) -> bool:
    return v.dtype.kind in "iuf"


def _axis(rng: random.Random, v: Any, *, several: bool = True) -> str:
    choices = ["None", str(rng.randrange(v.ndim)), str(-rng.randint(1, v.ndim))]
    return rng.choice([*choices, "(0, 1)"] if several and v.ndim > 1 else choices)


def _one_axis(rng: random.Random, v: Any) -> int:
    return rng.randint(-v.ndim, v.ndim - 1)


@_step(weight=4)
def function_of_elements(rng: random.Random, v: Any, _w: Any) -> str | None:
    of_real = "floor ceil sign isnan isfinite rint trunc cbrt exp2 log1p arctan tanh fabs deg2rad signbit spacing isinf"
    of_all = "square negative abs exp sin cos sqrt conj isnan real imag angle isreal log nan_to_num sinc"
    of_bool = "logical_not invert isnan sign square"
    names = of_bool if v.dtype.kind == "b" else f"{of_real} {of_all}" if _is_real(v) else of_all
    name = rng.choice(names.split())
    return None if name == "negative" and v.dtype.kind == "b" else f"v = da.{name}(v)"


@_step(weight=4)
def arithmetic(rng: random.Random, _v: Any, _w: Any) -> str:
    sign = rng.choice(["+", "-", "*", "/", "//", "%", "**", ">", ">=", "<", "<=", "==", "!="])
    right = rng.choice(["2", "0.5", "-1", "w", "v", "v[..., ::-1]", "v.mean()", "v.sum(axis=0)", "np.float32(2)", "3j"])
    return f"v = v {sign} {right}"


@_step(weight=2)
def arithmetic_from_left(rng: random.Random, _v: Any, _w: Any) -> str:
    return f"v = {rng.choice(['2', '0.5', 'np.float64(3)'])} {rng.choice(['-', '*', '/', '//', '%', '**', '>'])} v"


@_step(weight=3)
def function_of_two(rng: random.Random, v: Any, _w: Any) -> str | None:
    names = "maximum minimum fmax fmin arctan2 hypot logical_and logical_or logical_xor copysign logaddexp isclose fmod"
    extra = " bitwise_and bitwise_or bitwise_xor" if v.dtype.kind in "biu" else ""
    right = rng.choice(["w", "w", "v", "1", "2"])
    return f"v = da.{rng.choice(f'{names}{extra} float_power nextafter'.split())}(v, {right})"


@_step(weight=5)
def reduction(rng: random.Random, v: Any, _w: Any) -> str | None:
    names = "sum prod mean any all nansum nanmean nanprod" + (
        " min max std var nanstd nanvar nanmin nanmax" * _is_real(v)
    )
    name = rng.choice(names.split())
    options = [f"axis={_axis(rng, v)}"]
    if rng.random() < 0.4:
        options.append("keepdims=True")
    if name in ("std", "var", "nanstd", "nanvar") and rng.random() < 0.4:
        options.append("ddof=1")
    if name in ("sum", "mean", "prod") and rng.random() < 0.2:
        options.append("dtype='float32'" if _is_real(v) else "dtype='complex64'")
    split = ", split_every=2" if rng.random() < 0.2 else ""
    host = f"v = da.{name}(v, {', '.join(options)})"
    return (f"{host[:-1]}{split})", host) if split else host  # type: ignore[return-value]


@_step(weight=2)
def reduction_to_places(rng: random.Random, v: Any, _w: Any) -> str | None:
    name = rng.choice(["argmin", "argmax", "nanargmin", "nanargmax"])
    return f"v = da.{name}(v, axis={_axis(rng, v, several=False)})" if _is_real(v) else None


@_step(weight=2)
def accumulation(rng: random.Random, v: Any, _w: Any) -> str:
    return f"v = da.{rng.choice(['cumsum', 'cumprod', 'nancumsum', 'nancumprod'])}(v, axis={_one_axis(rng, v)})"


@_step(weight=2)
def median_or_percentile(rng: random.Random, v: Any, _w: Any) -> str | None:
    if not _is_real(v) or not v.size:
        return None
    axis = _one_axis(rng, v)
    names = [f"median(v, axis={axis})", f"nanmedian(v, axis={axis})", f"quantile(v, [0.2, 0.5], axis={axis})"]
    names += [f"nanquantile(v, 0.3, axis={axis})", f"nanpercentile(v, [30, 70], axis={axis})"]
    return f"v = da.{rng.choice(names)}"


@_step()
def percentile_of_chunks(rng: random.Random, v: Any, _w: Any) -> str | None:
    return f"v = da.percentile(v, {rng.choice(['50', '[10, 90]'])})" if v.ndim == 1 and _is_real(v) and v.size else None


@_step(weight=5)
def slices(rng: random.Random, v: Any, _w: Any) -> str:
    parts = []
    for size in v.shape[: rng.randint(1, v.ndim)]:
        last = max(size - 1, 0)
        choices = [
            "::-1",
            "::2",
            "1:",
            ":-1",
            f"{rng.randint(0, last)}",
            f"-{rng.randint(1, max(size, 1))}:",
            ":",
            "3:0:-1",
        ]
        choices += [f"{last}:{rng.randint(0, last)}:-2", f"{rng.randint(0, last)}:{rng.randint(0, size)}", "None"]
        parts.append(rng.choice(choices))
    return f"v = v[{', '.join(parts)}]"


@_step(weight=3)
def fancy_index(rng: random.Random, v: Any, _w: Any) -> str:
    axis = rng.randrange(v.ndim)
    size = v.shape[axis]
    places = [rng.randint(-size, size - 1) for _ in range(rng.randint(0, 5))] if size else []
    if rng.random() < 0.3:
        places = sorted(places)
    index = (
        repr(places)
        if rng.random() < 0.6
        else f"np.array({[bool(rng.getrandbits(1)) for _ in range(size)]}, dtype=bool)"
    )
    return f"v = v[{':, ' * axis}{index}]"


@_step()
def take(rng: random.Random, v: Any, _w: Any) -> str:
    axis = rng.randrange(v.ndim)
    return f"v = da.take(v, {[rng.randrange(max(1, v.shape[axis])) for _ in range(3)]}, axis={axis})"


@_step(weight=2)
def select_elements(rng: random.Random, _v: Any, _w: Any) -> str:
    return f"v = v[v {rng.choice(['> 1', '!= 0', '== v.max()'])}]"


@_step(weight=2)
def index_with_points(rng: random.Random, v: Any, _w: Any) -> tuple[str, str] | None:
    if v.ndim != 2 or not v.size:
        return None
    rows, columns = ([rng.randrange(size) for _ in range(3)] for size in v.shape)
    return f"v = v.vindex[{rows}, {columns}]", f"v = v[{rows}, {columns}]"


@_step(weight=3)
def assign(rng: random.Random, v: Any, _w: Any) -> str:
    size = v.shape[0]
    places = rng.choice(["v > 1", "0", "::2", "-1", "::-1", "w > 0", f"[{rng.randrange(max(1, size))}]"])
    value = rng.choice(["0", "7", "v[0]", "2 * v", "w", "w.max()"])
    return f"v = v.copy(); v[{places}] = {value}"


@_step(weight=3)
def where(rng: random.Random, _v: Any, _w: Any) -> str:
    condition = rng.choice(["v > 1", "w > 0", "v == v", "(v > 0) & (w < 2)", "da.isnan(v)"])
    values = rng.choice(["v, 0", "0, v", "v, w", "v, np.nan", "w, v[..., ::-1]", "1, 2.5", "v, v.mean()"])
    return f"v = da.where({condition}, {values})"


@_step(weight=3)
def put_together(rng: random.Random, v: Any, _w: Any) -> str:
    axis = _one_axis(rng, v)
    calls = [
        f"concatenate([v, w], axis={axis})",
        f"concatenate([v, v[::-1], w], axis={axis})",
        f"stack([v, w], axis={axis})",
    ]
    calls += ["stack([v, v + 1])", "hstack([v, w])", "vstack([v, w])", "dstack([v, w])", "block([v, w])"]
    return f"v = da.{rng.choice([*calls, f'append(v, w, axis={axis})'])}"


@_step(weight=4)
def change_shape(rng: random.Random, v: Any, _w: Any) -> str:
    axis, other = _one_axis(rng, v), _one_axis(rng, v)
    calls = [
        "v.ravel()",
        "v.reshape(-1)",
        "v.T",
        f"da.swapaxes(v, {axis}, {other})",
        f"da.moveaxis(v, {axis}, {other})",
    ]
    calls += [
        f"da.expand_dims(v, {axis})",
        "da.squeeze(v)",
        f"da.flip(v, {axis})",
        f"da.roll(v, 2, axis={axis})",
        "v[None]",
    ]
    calls += [
        f"da.repeat(v, 2, axis={axis})",
        "da.tile(v, 2)",
        f"da.broadcast_to(v, {(2, *v.shape)})",
        "da.atleast_2d(v)",
    ]
    calls += [
        "v.reshape(v.shape[0], -1)",
        f"v.reshape({tuple(v.shape[::-1])})",
        "da.fliplr(v)",
        "da.rot90(v)",
        "v.flatten()",
    ]
    return f"v = {rng.choice(calls)}"


@_step(weight=3)
def rechunk(rng: random.Random, _v: Any, _w: Any) -> tuple[str, str]:
    return f"v = v.rechunk({rng.choice(['2', '1', '-1', '3', repr({0: 1}), repr({0: -1})])})", "v = v"


@_step(weight=2)
def pad(rng: random.Random, _v: Any, _w: Any) -> str:
    options = rng.choice(
        ["", ", mode='edge'", ", mode='reflect'", ", mode='wrap'", ", mode='mean'", ", constant_values=3"]
    )
    return f"v = da.pad(v, {rng.choice(['1', '(0, 2)'])}{options})" if options else "v = da.pad(v, 1)"


@_step(weight=3)
def products(rng: random.Random, v: Any, _w: Any) -> str | None:
    if v.ndim == 1:
        return f"v = {rng.choice(['da.dot(v, w)', 'da.outer(v, w)', 'v @ v', 'da.vdot(v, w)'])}"
    if v.ndim == 2:
        calls = ["v @ w.T", "da.dot(v.T, w)", "da.tensordot(v, w, axes=((0,), (0,)))", "da.einsum('ij,kj->ik', v, w)"]
        calls += ["da.einsum('ij->j', v)", "da.einsum('ij,ij->', v, w)", "da.tensordot(v, w, axes=2)", "v.T @ v"]
        return f"v = {rng.choice([*calls, 'da.matmul(v, w.T)', 'da.einsum(' + repr('ii->i') + ', v @ w.T)'])}"
    return rng.choice(["v = da.matmul(v, da.swapaxes(w, -1, -2))", "v = da.tensordot(v, w, axes=((2,), (2,)))"])


@_step(weight=2)
def counts(rng: random.Random, v: Any, _w: Any) -> str | None:
    calls = []
    if _is_real(v):
        options = rng.choice(["", ", density=True", ", weights=da.ones_like(v, chunks=v.chunks, dtype=float)"])
        options = options if "weights" not in options else ""
        calls += [
            f"da.histogram(v, bins=4, range=(-3, 5){options})[{rng.choice('01')}]",
            "da.digitize(v, np.array([-1, 0, 2]))",
        ]
    if v.dtype.kind in "iu" and v.ndim == 1 and v.size and v.min() >= 0 and v.max() < 100:
        calls += ["da.bincount(v, minlength=6)", "da.bincount(v)"] * 4
    return f"v = {rng.choice(calls)}" if calls else None


@_step(weight=2)
def sets(rng: random.Random, v: Any, _w: Any) -> str | None:
    calls = ["isin(v, [1, 2, 0.5])", "count_nonzero(v)", f"count_nonzero(v, axis={_one_axis(rng, v)})", "argwhere(v)"]
    calls += ["nonzero(v)[0]", "flatnonzero(v)", "union1d(v, w)"]
    if not np.isnan(v).any():
        calls += ["unique(v)", "unique(v, return_counts=True)[1]", "unique(v, return_inverse=True)[0]"]
        calls += ["unique(v, return_index=True)[1]"]
    return f"v = da.{rng.choice(calls)}"


@_step(weight=2)
def of_order(rng: random.Random, v: Any, _w: Any) -> tuple[str, str] | None:
    if not _is_real(v) or np.isnan(v).any():
        return None
    number, axis = rng.choice([1, 2, -1, -2]), _one_axis(rng, v)
    ordered = f"np.sort(v, axis={axis})"
    part = f"-{number}:" if number > 0 else f":{-number}"
    selected = f"np.moveaxis(np.moveaxis({ordered}, {axis}, 0)[{part}], 0, {axis})"
    selected = f"np.flip({selected}, {axis})" if number > 0 else selected
    return f"v = da.topk(v, {number}, axis={axis})", f"v = {selected}"


@_step()
def search(rng: random.Random, v: Any, _w: Any) -> tuple[str, str] | None:
    side = rng.choice(["left", "right"])
    text = "v = da.searchsorted({}, v, side={!r})"
    return (
        (text.format("da.arange(-3, 6, chunks=4)", side), text.format("np.arange(-3, 6)", side))
        if _is_real(v)
        else None
    )


@_step(weight=2)
def other_functions(rng: random.Random, v: Any, _w: Any) -> str | None:
    axis = _one_axis(rng, v)
    calls = [
        f"diff(v, axis={axis})",
        "tril(v)",
        "triu(v, 1)",
        "ptp(v, axis=0)",
        "average(v, axis=0)",
        f"diff(v, n=2, axis={axis})",
    ]
    calls += [
        "clip(v, 0, 2)",
        "clip(v, 0.5, None)",
        "round(v, 1)",
        "around(v)",
        "ones_like(v)",
        "full_like(v, 3)",
        "diagonal(v)",
    ]
    calls += [
        "zeros_like(v)",
        "allclose(v, w)",
        "compress([True, False], v, axis=0)",
        "choose(v > 0, [v, w])",
        "diag(v)",
        "cov(v)",
    ]
    calls += [
        "isclose(v, w)",
        "gradient(v, axis=0)",
        "trace(v)",
        "average(v, weights=da.abs(w) + 1)",
        "corrcoef(v)",
        "ediff1d(v)",
    ]
    calls += [
        "select([v > 1, v < 0], [v, -w], 0)",
        "piecewise(v, [v > 1], [2])",
        "apply_along_axis(np.sum, 0, v)",
        "insert(v, 1, 5, axis=0)",
    ]
    calls += [
        "nan_to_num(v)",
        "delete(v, 0, axis=0)",
        "broadcast_arrays(v, v[:1])[1]",
        "meshgrid(v, w)[0]",
        "apply_over_axes(np.sum, v, 0)",
    ]
    return f"v = da.{rng.choice(calls)}"


@_step(weight=2)
def convert(rng: random.Random, v: Any, _w: Any) -> str | None:
    dtype = rng.choice(["float64", "float32", "complex128", "bool", "int64", "int32", "uint8"])
    if v.dtype.kind == "c" and dtype not in ("complex128", "bool"):
        return None
    # A conversion of what an integer cannot hold is undefined.
    if dtype in ("int64", "int32", "uint8") and v.size and not ((v >= 0) & (v < 128)).all():
        dtype = "bool"
    return f"v = v.astype({dtype!r})"


@_step(weight=3)
def function_of_user(rng: random.Random, _v: Any, _w: Any) -> tuple[str, str]:
    calls = ["block * 2", "np.sqrt(np.abs(block))", "block[...] + 1", "np.where(block > 0, block, 0)"]
    calls += ["np.maximum(block, np.zeros(block.shape))", "np.asarray(block) - 1", "np.clip(block, 0, 2)"]
    call = rng.choice(calls)
    return f"v = v.map_blocks(lambda block: {call})", f"v = (lambda block: {call})(v)"


@_step()
def overlapping_blocks(rng: random.Random, v: Any, _w: Any) -> tuple[str, str] | None:
    if v.dtype.kind != "f" or v.ndim > 2:
        return None
    boundary = rng.choice(["'periodic'", "'reflect'", "0", "'nearest'"])
    mode = {
        "'periodic'": "mode='wrap'",
        "'reflect'": "mode='symmetric'",
        "0": "constant_values=0",
        "'nearest'": "mode='edge'",
    }
    call = "np.roll(block, 1, axis=0)"
    inner = ", ".join(["1:-1"] * v.ndim)
    padded = f"np.pad(v, 1, {mode[boundary]})"
    return (
        f"v = v.map_overlap(lambda block: {call}, depth=1, boundary={boundary})",
        f"v = (lambda block: {call})({padded})[{inner}]",
    )


@_step(weight=2)
def linear_algebra(rng: random.Random, v: Any, _w: Any) -> tuple[str, str] | str | None:
    if v.ndim != 2 or v.dtype.kind != "f" or not v.size or not np.isfinite(v).all():
        return None
    tall = "v.rechunk({1: -1})"
    square = f"(v @ v.T + 9 * da.eye({v.shape[0]}))"
    blocks = f"{square}.rechunk(2)"
    return rng.choice([
        (f"v = da.linalg.svd({tall})[1]", "v = np.linalg.svd(v)[1]"),
        (f"q, r = da.linalg.qr({tall}); v = q @ r", "v = v.copy()"),
        (f"q, r = da.linalg.qr({tall}); v = da.abs(r)", "v = np.abs(np.linalg.qr(v)[1])"),
        (f"q, r = da.linalg.qr({tall}); v = q.T @ q", "v = np.eye(min(v.shape))"),
        (f"u, s, t = da.linalg.svd({tall}); v = (u * s) @ t", "v = v.copy()"),
        (f"v = da.linalg.solve({blocks}, da.ones({v.shape[0]}, chunks=2))",
         f"v = np.linalg.solve({square}, np.ones({v.shape[0]}))"),
        (f"v = da.linalg.cholesky({blocks}, lower=True)", f"v = np.linalg.cholesky({square})"),
        (f"v = da.linalg.inv({blocks})", f"v = np.linalg.inv({square})"),
        "v = da.linalg.norm(v)", "v = da.linalg.norm(v, axis=0)", "v = da.linalg.norm(v, ord=1, axis=1)",
    ])  # fmt: skip


@_step()
def fourier(rng: random.Random, v: Any, _w: Any) -> tuple[str, str] | None:
    name, axis = rng.choice(["fft", "ifft", "rfft", "fftshift"]), _one_axis(rng, v)
    if not v.size or v.dtype.kind == "b":
        return None
    if name == "fftshift":
        return f"v = da.fft.fftshift(v, axes={axis})", f"v = np.fft.fftshift(v, axes={axis})"
    return f"v = da.fft.{name}(v.rechunk({{{axis}: -1}}), axis={axis})", f"v = np.fft.{name}(v, axis={axis})"


@_step()
def creation(rng: random.Random, _v: Any, _w: Any) -> tuple[str, str]:
    one = rng.choice(
        ["arange(7", "linspace(0, 3, 7", "ones((4, 3)", "full((3, 4), 2.5", "eye(5", "zeros(5", "arange(2, 9, 2"]
    )
    return f"v = da.{one}, chunks=2)", f"v = np.{one})"


@_step()
def splits_of_blocks(_rng: random.Random, _v: Any, _w: Any) -> tuple[str, str]:
    return "v = da.concatenate([v.blocks[0], v.blocks[1:]])", "v = v.copy()"
