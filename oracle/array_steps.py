"""The operations on arrays that a random program can have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from program_draws import Draw, Operation, entries, fits

if TYPE_CHECKING:
    from collections.abc import Callable

    from program_draws import Made

ARRAY_STEPS: list[Operation] = []


class ArrayDraw(Draw):
    """Draws what fits an array `v`."""

    @property
    def is_real(self) -> bool:
        return self.v.dtype.kind in "iuf"

    @property
    def has_nan(self) -> bool:
        return bool(np.isnan(self.v).any())

    def axis(self) -> int:
        return self.rng.randint(-self.v.ndim, self.v.ndim - 1)

    def axes(self, *, several: bool = True) -> str:
        """Also ``None``, and a tuple of two."""
        choices = ["None", str(self.rng.randrange(self.v.ndim)), str(-self.rng.randint(1, self.v.ndim))]
        return self.of(*choices, *(["(0, 1)"] if several and self.v.ndim > 1 else []))

    def function_of_elements(self) -> str | None:
        of_real = "floor ceil sign isnan isfinite rint trunc cbrt exp2 log1p arctan tanh fabs deg2rad signbit spacing"
        of_all = "square negative abs exp sin cos sqrt conj isnan real imag angle isreal log nan_to_num sinc"
        of_bool = "logical_not invert isnan sign square"
        name = self.word(
            of_bool if self.v.dtype.kind == "b" else f"{of_real} isinf {of_all}" if self.is_real else of_all
        )
        is_open = name == "signbit" and self.has_nan  # NaN has either sign
        return None if is_open or (name == "negative" and self.v.dtype.kind == "b") else f"v = da.{name}(v)"

    def arithmetic(self) -> str:
        sign = self.word("+ - * / // % ** > >= < <= == !=")
        right = self.of("2", "0.5", "-1", "w", "v", "v[..., ::-1]", "v.mean()", "v.sum(axis=0)", "np.float32(2)", "3j")
        return f"v = v {sign} {right}"

    def function_of_two(self) -> str:
        names = "maximum minimum fmax fmin arctan2 hypot logical_and logical_or logical_xor copysign logaddexp isclose"
        extra = " bitwise_and bitwise_or bitwise_xor" if self.v.dtype.kind in "biu" else ""
        right = self.word("w w v 1 2")
        return f"v = da.{self.word(f'{names} fmod{extra} float_power nextafter')}(v, {right})"

    def reduction(self) -> Made:
        of_real = " min max std var nanstd nanvar nanmin nanmax" if self.is_real else ""
        name = self.word("sum prod mean any all nansum nanmean nanprod" + of_real)
        options = [f"axis={self.axes()}"]
        if self.rng.random() < 0.4:
            options.append("keepdims=True")
        if name in ("std", "var", "nanstd", "nanvar") and self.rng.random() < 0.4:
            options.append("ddof=1")
        if name in ("sum", "mean", "prod") and self.rng.random() < 0.2:
            options.append("dtype='float32'" if self.is_real else "dtype='complex64'")
        host = f"v = da.{name}(v, {', '.join(options)})"
        return (f"{host[:-1]}, split_every=2)", host) if self.rng.random() < 0.2 else host

    def reduction_to_places(self) -> str | None:
        name = self.word("argmin argmax nanargmin nanargmax")
        return f"v = da.{name}(v, axis={self.axes(several=False)})" if self.is_real else None

    def percentile_of_chunks(self) -> str | None:
        has_it = self.v.ndim == 1 and self.is_real and self.v.size
        return f"v = da.percentile(v, {self.of('50', '[10, 90]')})" if has_it else None

    def median_or_percentile(self) -> str | None:
        if not self.is_real or not self.v.size:
            return None
        axis = self.axis()
        names = "median(v", "nanmedian(v", "quantile(v, [0.2, 0.5]", "nanquantile(v, 0.3", "nanpercentile(v, [30, 70]"
        return f"v = da.{self.of(*names)}, axis={axis})"

    def slices(self) -> str:
        parts, randint = [], self.rng.randint
        for size in self.v.shape[: randint(1, self.v.ndim)]:
            last = max(size - 1, 0)
            choices = ["::-1", "::2", "1:", ":-1", f"{randint(0, last)}", f"-{randint(1, max(size, 1))}:", ":"]
            choices += ["3:0:-1"]
            choices += [f"{last}:{randint(0, last)}:-2", f"{randint(0, last)}:{randint(0, size)}", "None"]
            parts.append(self.of(*choices))
        return f"v = v[{', '.join(parts)}]"

    def fancy_index(self) -> str:
        axis = self.rng.randrange(self.v.ndim)
        size = self.v.shape[axis]
        places = [self.rng.randint(-size, size - 1) for _ in range(self.rng.randint(0, 5))] if size else []
        if self.rng.random() < 0.3:
            places = sorted(places)
        if self.rng.random() < 0.6:
            return f"v = v[{':, ' * axis}{places!r}]"
        return f"v = v[{':, ' * axis}np.array({[bool(self.rng.getrandbits(1)) for _ in range(size)]}, dtype=bool)]"

    def take(self) -> str:
        axis = self.rng.randrange(self.v.ndim)
        return f"v = da.take(v, {[self.rng.randrange(max(1, self.v.shape[axis])) for _ in range(3)]}, axis={axis})"

    def index_with_points(self) -> Made:
        if self.v.ndim != 2 or not self.v.size:
            return None
        rows, columns = ([self.rng.randrange(size) for _ in range(3)] for size in self.v.shape)
        return f"v = v.vindex[{rows}, {columns}]", f"v = v[{rows}, {columns}]"

    def assign(self) -> str:
        places = self.of("v > 1", "0", "::2", "-1", "::-1", "w > 0", f"[{self.rng.randrange(max(1, self.v.shape[0]))}]")
        return f"v = v.copy(); v[{places}] = {self.of('0', '7', 'v[0]', '2 * v', 'w', 'w.max()')}"

    def where(self) -> str:
        condition = self.of("v > 1", "w > 0", "v == v", "(v > 0) & (w < 2)", "da.isnan(v)")
        values = self.of("v, 0", "0, v", "v, w", "v, np.nan", "w, v[..., ::-1]", "1, 2.5", "v, v.mean()")
        return f"v = da.where({condition}, {values})"

    def put_together(self) -> str:
        at = f"axis={self.axis()}"
        calls = f"concatenate([v, w], {at})", f"concatenate([v, v[::-1], w], {at})", f"stack([v, w], {at})"
        calls += "stack([v, v + 1])", "hstack([v, w])", "vstack([v, w])", "dstack([v, w])", "block([v, w])"
        return f"v = da.{self.of(*calls, f'append(v, w, {at})')}"

    def change_shape(self) -> str:
        axis, other = self.axis(), self.axis()
        calls = "v.ravel()", "v.reshape(-1)", "v.T", f"da.swapaxes(v, {axis}, {other})"
        calls += (f"da.moveaxis(v, {axis}, {other})",)
        calls += f"da.expand_dims(v, {axis})", "da.squeeze(v)", f"da.flip(v, {axis})", f"da.roll(v, 2, axis={axis})"
        calls += "v[None]", f"da.repeat(v, 2, axis={axis})", "da.tile(v, 2)"
        calls += (f"da.broadcast_to(v, {(2, *self.v.shape)})",)
        calls += "da.atleast_2d(v)", "v.reshape(v.shape[0], -1)", f"v.reshape({tuple(self.v.shape[::-1])})"
        return f"v = {self.of(*calls, 'da.fliplr(v)', 'da.rot90(v)', 'v.flatten()')}"

    def pad(self) -> str:
        modes = ", mode='edge'", ", mode='reflect'", ", mode='wrap'", ", mode='mean'", ", constant_values=3"
        options = self.of("", *modes)
        return f"v = da.pad(v, {self.of('1', '(0, 2)')}{options})" if options else "v = da.pad(v, 1)"

    def products(self) -> str:
        if self.v.ndim == 1:
            return f"v = {self.of('da.dot(v, w)', 'da.outer(v, w)', 'v @ v', 'da.vdot(v, w)')}"
        if self.v.ndim == 2:
            calls = "v @ w.T", "da.dot(v.T, w)", "da.tensordot(v, w, axes=((0,), (0,)))", "da.einsum('ij,kj->ik', v, w)"
            calls += "da.einsum('ij->j', v)", "da.einsum('ij,ij->', v, w)", "da.tensordot(v, w, axes=2)", "v.T @ v"
            return "v = " + self.of(*calls, "da.matmul(v, w.T)", "da.einsum('ii->i', v @ w.T)")
        return self.of("v = da.matmul(v, da.swapaxes(w, -1, -2))", "v = da.tensordot(v, w, axes=((2,), (2,)))")

    def counts(self) -> str | None:
        calls = []
        if self.is_real:
            options = self.of("", ", density=True", "")
            calls += [f"da.histogram(v, bins=4, range=(-3, 5){options})[{self.of(*'01')}]"]
            calls += [f"da.histogram(v, bins=10, range=(-2, 2){options})[0]"]  # some elements are edges
            calls += ["da.digitize(v, np.array([-1, 0, 2]))"]
        if self.v.dtype.kind in "iu" and self.v.ndim == 1 and self.v.size and self.v.min() >= 0 and self.v.max() < 100:
            calls += ["da.bincount(v, minlength=6)", "da.bincount(v)"] * 4
        return f"v = {self.of(*calls)}" if calls else None

    def sets(self) -> str:
        calls = ["isin(v, [1, 2, 0.5])", "count_nonzero(v)", f"count_nonzero(v, axis={self.axis()})", "argwhere(v)"]
        calls += ["nonzero(v)[0]", "flatnonzero(v)", "union1d(v, w)"]
        if not self.has_nan:
            calls += ["unique(v)", "unique(v, return_counts=True)[1]", "unique(v, return_inverse=True)[0]"]
            calls += ["unique(v, return_index=True)[1]"]
        return f"v = da.{self.of(*calls)}"

    def of_order(self) -> Made:
        if not self.is_real or self.has_nan:
            return None
        number, axis = self.of(1, 2, -1, -2), self.axis()
        part = f"-{number}:" if number > 0 else f":{-number}"
        selected = f"np.moveaxis(np.moveaxis(np.sort(v, axis={axis}), {axis}, 0)[{part}], 0, {axis})"
        selected = f"np.flip({selected}, {axis})" if number > 0 else selected
        return f"v = da.topk(v, {number}, axis={axis})", f"v = {selected}"

    def search(self) -> Made:
        end = f", v, side={self.word('left right')!r})"
        texts = f"v = da.searchsorted(da.arange(-3, 6, chunks=4){end}", f"v = da.searchsorted(np.arange(-3, 6){end}"
        return fits(self.is_real, texts)

    def other_functions(self) -> str:
        axis = self.axis()
        calls = f"diff(v, axis={axis})", "tril(v)", "triu(v, 1)", "ptp(v, axis=0)", "average(v, axis=0)"
        calls += (
            f"diff(v, n=2, axis={axis})",
            "clip(v, 0, 2)",
            "clip(v, 0.5, None)",
            "clip(v, -1, 5)",
            "round(v, 1)",
            "around(v)",
        )
        calls += "ones_like(v)", "full_like(v, 3)", "diagonal(v)", "zeros_like(v)", "allclose(v, w)"
        calls += "compress([True, False], v, axis=0)", "choose(v > 0, [v, w])", "diag(v)", "cov(v)", "isclose(v, w)"
        calls += "gradient(v, axis=0)", "trace(v)", "average(v, weights=da.abs(w) + 1)", "corrcoef(v)", "ediff1d(v)"
        calls += "select([v > 1, v < 0], [v, -w], 0)", "piecewise(v, [v > 1], [2])", "apply_along_axis(np.sum, 0, v)"
        calls += "insert(v, 1, 5, axis=0)", "nan_to_num(v)", "delete(v, 0, axis=0)", "broadcast_arrays(v, v[:1])[1]"
        return f"v = da.{self.of(*calls, 'meshgrid(v, w)[0]', 'apply_over_axes(np.sum, v, 0)')}"

    def convert(self) -> str | None:
        dtype = self.word("float64 float32 complex128 bool int64 int32 uint8")
        if self.v.dtype.kind == "c" and dtype not in ("complex128", "bool"):
            return None
        # A conversion of what an integer cannot hold is undefined.
        lowest = -128 if self.v.dtype.kind == "f" else 0
        if dtype in ("int64", "int32", "uint8") and self.v.size and not ((self.v >= lowest) & (self.v < 128)).all():
            dtype = "bool"
        return f"v = v.astype({dtype!r})"

    def function_of_user(self) -> tuple[str, str]:
        calls = "block * 2", "np.sqrt(np.abs(block))", "block[...] + 1", "np.where(block > 0, block, 0)"
        calls += "np.maximum(block, np.zeros(block.shape))", "np.asarray(block) - 1", "np.clip(block, 0, 2)"
        call = self.of(*calls)
        return f"v = v.map_blocks(lambda block: {call})", f"v = (lambda block: {call})(v)"

    def overlapping_blocks(self) -> Made:
        if self.v.dtype.kind != "f" or self.v.ndim > 2:
            return None
        modes = {"'periodic'": "mode='wrap'", "'reflect'": "mode='symmetric'", "0": "constant_values=0"}
        modes["'nearest'"] = "mode='edge'"
        boundary, call = self.of(*modes), "lambda block: np.roll(block, 1, axis=0)"
        padded, inner = f"np.pad(v, 1, {modes[boundary]})", ", ".join(["1:-1"] * self.v.ndim)
        return f"v = v.map_overlap({call}, depth=1, boundary={boundary})", f"v = ({call})({padded})[{inner}]"

    def linear_algebra(self) -> Made:
        if self.v.ndim != 2 or self.v.dtype.kind != "f" or not self.v.size or not np.isfinite(self.v).all():
            return None
        tall, rows = "v.rechunk({1: -1})", self.v.shape[0]
        square = f"(v @ v.T + 9 * da.eye({rows}))"
        blocks = f"{square}.rechunk(2)"
        return self.of(
            (f"v = da.linalg.svd({tall})[1]", "v = np.linalg.svd(v)[1]"),
            (f"q, r = da.linalg.qr({tall}); v = q @ r", "v = v.copy()"),
            (f"q, r = da.linalg.qr({tall}); v = da.abs(r)", "v = np.abs(np.linalg.qr(v)[1])"),
            (f"q, r = da.linalg.qr({tall}); v = q.T @ q", "v = np.eye(min(v.shape))"),
            (f"u, s, t = da.linalg.svd({tall}); v = (u * s) @ t", "v = v.copy()"),
            (f"v = da.linalg.solve({blocks}, da.ones({rows}, chunks=2))",
             f"v = np.linalg.solve({square}, np.ones({rows}))"),
            (f"v = da.linalg.cholesky({blocks}, lower=True)", f"v = np.linalg.cholesky({square})"),
            (f"v = da.linalg.inv({blocks})", f"v = np.linalg.inv({square})"),
            "v = da.linalg.norm(v)", "v = da.linalg.norm(v, axis=0)", "v = da.linalg.norm(v, ord=1, axis=1)",
            "v = da.linalg.norm(v, 1)",
        )  # fmt: skip

    def fourier(self) -> Made:
        name, axis = self.word("fft ifft rfft fftshift"), self.axis()
        if not self.v.size or self.v.dtype.kind == "b":
            return None
        if name == "fftshift":
            return f"v = da.fft.fftshift(v, axes={axis})", f"v = np.fft.fftshift(v, axes={axis})"
        return f"v = da.fft.{name}(v.rechunk({{{axis}: -1}}), axis={axis})", f"v = np.fft.{name}(v, axis={axis})"

    def masked(self) -> Made:
        if not self.is_real:
            return None
        mask = self.of("masked_greater(v, 1)", "masked_where(w > 0, v)", "masked_invalid(v)", "masked_equal(v, 0)")
        form = self.of("filled(da.ma.{}, 0)", "{}.mean()", "{}.sum()", "getmaskarray(da.ma.{})")
        return f"v = da.ma.{form.format(mask)}"

    def times(self) -> str | None:
        hours = "v.astype('timedelta64[h]')"
        calls = hours, f"np.datetime64('2020-01-01', 'h') + {hours}", f"{hours} > np.timedelta64(2, 'h')"
        calls += (f"(np.datetime64('2020-01-01', 'h') + {hours}).astype('datetime64[D]')", f"da.isnan({hours})")
        return f"v = {self.of(*calls)}" if self.v.dtype.kind == "i" else None

    def creation(self) -> tuple[str, str]:
        calls = "arange(7", "linspace(0, 3, 7", "ones((4, 3)", "full((3, 4), 2.5", "eye(5", "zeros(5", "arange(2, 9, 2"
        one = self.of(*calls)
        return f"v = da.{one}, chunks=2)", f"v = np.{one})"


_SHORT: dict[str, Callable[[ArrayDraw], Made]] = {
    "arithmetic_from_left": lambda d: f"v = {d.word('2 0.5 np.float64(3)')} {d.word('- * / // % ** >')} v",
    "accumulation": lambda d: f"v = da.{d.word('cumsum cumprod nancumsum nancumprod')}(v, axis={d.axis()})",
    "select_elements": lambda d: f"v = v[v {d.of('> 1', '!= 0', '== v.max()')}]",
    "rechunk": lambda d: (f"v = v.rechunk({d.of('2', '1', '-1', '3', '{0: 1}', '{0: -1}')})", "v = v"),
    "splits_of_blocks": lambda _: ("v = da.concatenate([v.blocks[0], v.blocks[1:]])", "v = v.copy()"),
}

_TABLE = """
A:function_of_elements*4 A:arithmetic*4 A:arithmetic_from_left*2 A:function_of_two*3 A:reduction*5
A:reduction_to_places*2 A:accumulation*2 A:median_or_percentile*2 A:percentile_of_chunks A:slices*5 A:fancy_index*3
A:take A:select_elements*2 A:index_with_points*2 A:assign*3 A:where*3 A:put_together*3 A:change_shape*4 A:rechunk*3
A:pad*2 A:products*3 A:counts*2 A:sets*2 A:of_order*2 A:search A:other_functions*2 A:convert*2 A:function_of_user*3
A:overlapping_blocks A:linear_algebra*2 A:fourier A:creation A:splits_of_blocks A:masked A:times
"""
"""How often each is chosen, if more than once; the order counts."""

for _, _name, _weight in entries(_TABLE):
    ARRAY_STEPS += [Operation(_name, ArrayDraw.maker(_SHORT.get(_name) or getattr(ArrayDraw, _name)))] * _weight
