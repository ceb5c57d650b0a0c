"""A dataframe operation whose metadata cuDF lacks runs on the host as a whole; cuDF is a class of that name here."""

from types import FunctionType, SimpleNamespace

import dask.array as da
import dask.dataframe as dd
import pandas as pd
import pytest
from dask._expr import Expr
from dask.dataframe.dask_expr._expr import Fused

from jupyter_gpudask.errors import MixedBackendsError, NotOnGpuError
from jupyter_gpudask.fallback.log import Place, fallback_log
from jupyter_gpudask.inspection import to_pandas
from jupyter_gpudask.inspection.placement import place_of, place_of_partitions
from jupyter_gpudask.overlay.cell_record import CellRecord
from jupyter_gpudask.overlay.config_overlay import Overlay
from jupyter_gpudask.patches import creation, host_fallback, mixed_operands
from jupyter_gpudask.patches.frames.methods import call_method
from jupyter_gpudask.patches.host_fallback import build_frame
from jupyter_gpudask.patches.mixed_operands import check_frames


class Frame:
    """Stands for `cudf.DataFrame`."""

    __module__ = "cudf.core.dataframe"


class Source(Expr):
    """An input, whose metadata are those of its device."""

    _parameters = ["device"]  # noqa: RUF012 - as in Dask

    @property
    def _meta(self):
        return Frame() if self.device == "gpu" else pd.DataFrame({"a": [1]})


class Median(Expr):
    """An operation that pandas has; the class decides what cuDF says."""

    _parameters = ["frame", "window"]  # noqa: RUF012 - as in Dask
    error = None

    def dependencies(self):
        return [self.frame]

    @property
    def _meta(self):
        if type(self.frame._meta) is Frame:
            exec("raise error", {"__name__": "cudf.core.window", "error": self.error})  # noqa: S102
        return self.frame._meta


class Missing(Median):
    error = NotImplementedError("Rolling.median() is not yet implemented")


class Wrong(Median):
    error = ZeroDivisionError("of the user")


class ToNumeric(Median):
    """An operation for which cuDF has another result, and no error."""

    _parameters = ["frame", "downcast"]  # noqa: RUF012 - as in Dask

    @property
    def _meta(self):
        return self.frame._meta


class Moved(Expr):
    """An expression on the host of what is on a GPU."""

    _parameters = ["frame"]  # noqa: RUF012 - as in Dask

    @property
    def _meta(self):
        return pd.DataFrame({"a": [1]})


class Sum(Expr):
    """An operation on two dataframes."""

    _parameters = ["left", "right"]  # noqa: RUF012 - as in Dask

    @property
    def _meta(self):
        return self.left._meta


class Collection:
    """As Dask's, with the methods that are used here."""

    npartitions = 3
    ndim = 2

    def __init__(self, expr):
        self.expr = expr
        assert self._meta is not None

    @property
    def _name(self):
        return self.expr._name

    @property
    def _meta(self):
        return self.expr._meta

    def __dask_graph__(self):
        return {}

    def to_backend(self, name):
        return Collection(Source("gpu" if name == "cudf" else "host"))

    def mode(self):
        return "of pandas" if place_of(self) == "host" else "of cuDF"

    def corr(self, other=None, *, min_periods=1):
        if place_of(self) == "gpu":
            error = NotImplementedError("min_periods is currently not supported.")
            exec("raise error", {"__name__": "cudf.core.dataframe", "error": error})  # noqa: S102
        assert other is None or place_of(other) == "host"
        if min_periods < 0:
            raise ValueError("min_periods must not be negative")
        return self


def new_collection(expr):
    return Collection(expr)


@pytest.fixture
def cell(monkeypatch):
    monkeypatch.setattr(to_pandas, "collection_to_pandas", lambda collection: collection.to_backend("pandas"))
    overlays = []

    def enter(fallback):
        overlays.append(Overlay({"array": "cupy", "dataframe": "cudf"}, CellRecord(fallback=fallback)))
        overlays[-1].enter()

    yield enter
    for overlay in overlays:
        overlay.leave()


def test_it_is_computed_on_the_host_and_its_result_is_on_the_gpu(cell):
    cell("host")
    before = fallback_log.blocks.copy()
    result = build_frame(new_collection, Missing(Source("gpu"), 3))
    assert type(result._meta) is Frame
    ((place, blocks),) = fallback_log.blocks_since(before).items()
    assert (place.operation, place.words, blocks) == (
        "Missing",
        "NotImplementedError: Rolling.median() is not yet implemented",
        3,
    )
    assert isinstance(place, Place)


def test_an_expression_with_the_result_of_pandas_has_the_name_of_dasks(cell):
    cell("host")
    before = fallback_log.blocks.copy()
    build_frame(new_collection, type("MissingAsPandas", (Missing,), {})(Source("gpu"), 3))
    assert [place.operation for place in fallback_log.blocks_since(before)] == ["Missing"]


@pytest.mark.parametrize(
    ("fallback", "downcast", "runs_on_host"), [("host", "integer", 3), ("host", None, 0), ("error", "integer", 0)]
)
def test_an_operation_whose_result_differs_is_computed_on_the_host(cell, fallback, downcast, runs_on_host):
    cell(fallback)
    before = fallback_log.blocks.copy()
    assert place_of(build_frame(new_collection, ToNumeric(Source("gpu"), downcast))) == "gpu"
    assert sum(fallback_log.blocks_since(before).values()) == runs_on_host
    assert place_of(build_frame(new_collection, ToNumeric(Source("host"), downcast))) == "host"
    assert sum(fallback_log.blocks_since(before).values()) == runs_on_host


@pytest.mark.parametrize(("fallback", "result"), [("host", "of pandas"), ("error", "of cuDF")])
def test_a_method_whose_result_differs_is_computed_on_the_host(cell, fallback, result):
    cell(fallback)
    assert call_method(Collection.mode, Collection(Source("gpu"))) == result


def test_strict_refuses_what_differs(cell):
    cell("strict")
    with pytest.raises(NotOnGpuError, match=r"ToNumeric .*cannot run on the GPU: cuDF's to_numeric has other dtypes"):
        build_frame(new_collection, ToNumeric(Source("gpu"), "integer"))
    with pytest.raises(NotOnGpuError, match=r"mode .*cannot run on the GPU"):
        call_method(Collection.mode, Collection(Source("gpu")))


def test_dataframes_are_mixed_if_one_has_come_to_the_host(cell):
    cell("host")
    before = fallback_log.blocks.copy()
    on_host = Moved(Source("gpu"))
    result = check_frames(new_collection, Sum(Source("gpu"), on_host))
    assert place_of(result) == "host"
    assert sum(fallback_log.blocks_since(before).values()) == 3
    with pytest.raises(MixedBackendsError):
        check_frames(new_collection, Sum(Source("gpu"), Source("host")))
    cell("error")
    with pytest.raises(MixedBackendsError):
        check_frames(new_collection, Sum(Source("gpu"), on_host))


def test_dataframes_are_mixed_if_cudf_cannot_hold_one(cell, monkeypatch):
    def to_gpu(_):
        exec("raise error", {"__name__": "cudf.core.column", "error": NotImplementedError("PeriodDtype")})  # noqa: S102

    monkeypatch.setattr(host_fallback, "to_gpu", to_gpu)
    cell("host")
    assert place_of(check_frames(new_collection, Sum(Source("gpu"), Source("host")))) == "host"
    cell("strict")
    with pytest.raises(NotOnGpuError, match="the other operand is on the CPU"):
        check_frames(new_collection, Sum(Source("gpu"), Source("host")))


@pytest.mark.parametrize("fallback", ["host", "error", "strict"])
def test_a_frame_of_pandas_that_is_passed_to_an_operation_is_placed_with_the_other_operands(
    cell, monkeypatch, fallback
):
    monkeypatch.setattr(creation, "dataframe_creation_dispatch", SimpleNamespace(backend="cudf"))
    cell(fallback)
    right = pd.DataFrame({"k": [1, 3], "b": [10, 30]})
    made_by_dask = FunctionType(by_dask.__code__, {"__name__": "dask.dataframe", "make": creation.create_frame})
    plain = made_by_dask(dd.from_pandas, right, npartitions=1)
    assert place_of(plain) == "host"
    monkeypatch.setattr(host_fallback, "to_gpu", lambda _: Collection(Source("gpu")))
    monkeypatch.setattr(mixed_operands, "to_gpu", lambda _: Collection(Source("gpu")))
    before = fallback_log.blocks.copy()
    for left, other in ((Source("gpu"), plain.expr), (plain.expr[["b"]], Source("gpu"))):
        result = check_frames(new_collection, Sum(left, other))
        assert [place_of_partitions(part) for part in result.expr.dependencies()] == ["gpu", "gpu"]
    assert not fallback_log.blocks_since(before)
    assert place_of(check_frames(new_collection, Sum(Source("host"), plain.expr))) == "host"


def test_an_optimized_dataframe_whose_inputs_are_moved_in_a_fused_task_is_no_mixture(cell):
    cell("host")
    moved = Moved(Source("gpu"))
    fused = Fused([Sum(moved, Source("gpu")), moved], Source("host"), Source("gpu"))
    assert {place_of_partitions(part) for part in fused.dependencies()} == {"host", "gpu"}
    assert check_frames(new_collection, fused).expr is fused


def by_dask(function, data, npartitions):
    return make(function, data, npartitions=npartitions)  # noqa: F821 - of the module that it is moved to


def test_a_number_of_the_host_is_not_moved(cell):
    number = dd.from_pandas(pd.Series([1.0, 2.0]), npartitions=1).sum()
    assert place_of(number) == "host"
    cell("host")
    assert host_fallback.frame_to_gpu(number) is number


def test_what_cudf_cannot_hold_once_dask_has_simplified_it_stays_on_the_host(monkeypatch):
    class Moved:
        """As the texts and numbers that describe a column: only the metadata of the simplified expression has both."""

        @property
        def expr(self):
            return self

        def simplify(self):
            return self

        @property
        def _meta(self):
            error = TypeError("Cannot create column with mixed types")
            exec("raise error", {"__name__": "cudf.core.column", "error": error})  # noqa: S102

    frame = dd.from_pandas(pd.DataFrame({"a": [1, 2]}), npartitions=1)
    monkeypatch.setattr(host_fallback, "to_gpu", lambda _: Moved())
    assert host_fallback.frame_to_gpu(frame) is frame


def test_the_line_of_an_expression_of_arrays_is_known(cell):
    array = da.ones(3)
    cell("host")
    build_frame(lambda _: array, Source("gpu"))
    assert fallback_log.line_of(array.name) > 0


@pytest.mark.parametrize("fallback", ["host", "strict"])
def test_any_other_error_is_raised(cell, fallback):
    cell(fallback)
    with pytest.raises(ZeroDivisionError, match="of the user"):
        build_frame(new_collection, Wrong(Source("gpu"), 3))


def test_the_error_of_the_library_is_raised_if_that_is_set(cell):
    cell("error")
    with pytest.raises(NotImplementedError, match="not yet implemented"):
        build_frame(new_collection, Missing(Source("gpu"), 3))


def test_strict_refuses_it(cell):
    cell("strict")
    with pytest.raises(NotOnGpuError, match=r"Missing .*cannot run on the GPU: NotImplementedError: Rolling.median"):
        build_frame(new_collection, Missing(Source("gpu"), 3))


@pytest.mark.parametrize("others", [(), (Collection(Source("gpu")),)])
def test_a_method_that_cudf_lacks_runs_on_the_host(cell, others):
    cell("host")
    before = fallback_log.blocks.copy()
    assert place_of(call_method(Collection.corr, Collection(Source("gpu")), *others)) == "gpu"
    ((place, blocks),) = fallback_log.blocks_since(before).items()
    assert (place.operation, blocks) == ("corr", 3)
    assert place.line > 0
    with pytest.raises(ValueError, match="must not be negative"):  # what pandas says
        call_method(Collection.corr, Collection(Source("gpu")), min_periods=-1)


@pytest.mark.parametrize(
    ("fallback", "error", "text"),
    [
        ("error", NotImplementedError, "min_periods"),
        ("strict", NotOnGpuError, r"corr \(line \d+\) cannot run on the GPU"),
    ],
)
def test_a_method_that_cudf_lacks_is_refused_if_that_is_set(cell, fallback, error, text):
    cell(fallback)
    with pytest.raises(error, match=text):
        call_method(Collection.corr, Collection(Source("gpu")))


def test_a_file_that_cudf_cannot_read_with_these_options_is_read_on_the_host(cell, monkeypatch):
    def read_csv(*_path, **_options):
        error = TypeError("'float' object cannot be interpreted as an integer")
        exec("raise error", {"__name__": "dask_cudf.io.csv", "error": error})  # noqa: S102

    pandas = SimpleNamespace(read_csv=lambda path, blocksize: Collection(Source("host")))
    dispatch = SimpleNamespace(backend="cudf", dispatch=lambda name: {"pandas": pandas}[name])
    monkeypatch.setattr(creation, "dataframe_creation_dispatch", dispatch)
    cell("error")
    with pytest.raises(TypeError, match="'float' object"):
        creation.read_frame(read_csv, "data.csv", blocksize=25e6)
    cell("host")
    before = fallback_log.blocks.copy()
    assert place_of(creation.read_frame(read_csv, "data.csv", blocksize=25e6)) == "gpu"
    ((place, blocks),) = fallback_log.blocks_since(before).items()
    assert (place.operation, blocks) == ("read_csv", 3)
    cell("strict")
    with pytest.raises(NotOnGpuError, match="read_csv"):
        creation.read_frame(read_csv, "data.csv", blocksize=25e6)


def test_a_folder_that_cudf_cannot_read_is_read_on_the_host(cell, monkeypatch):
    def read_orc(path):
        raise IsADirectoryError(21, "Is a directory", path)

    pandas = SimpleNamespace(read_orc=lambda path: Collection(Source("host")))
    dispatch = SimpleNamespace(backend="cudf", dispatch=lambda name: {"pandas": pandas}[name])
    monkeypatch.setattr(creation, "dataframe_creation_dispatch", dispatch)
    cell("error")
    with pytest.raises(IsADirectoryError):
        creation.read_frame(read_orc, "folder")
    cell("host")
    before = fallback_log.blocks.copy()
    assert place_of(creation.read_frame(read_orc, "folder")) == "gpu"
    assert [place.operation for place in fallback_log.blocks_since(before)] == ["read_orc"]


@pytest.mark.parametrize(("fallback", "stays"), [("host", True), ("error", False)])
def test_a_dataframe_whose_dtypes_cudf_lacks_stays_on_the_host(cell, monkeypatch, fallback, stays):
    def to_gpu(_):
        exec("raise error", {"__name__": "cudf.core.column", "error": NotImplementedError("PeriodDtype")})  # noqa: S102

    monkeypatch.setattr(creation, "dataframe_creation_dispatch", SimpleNamespace(backend="cudf"))
    for module in (creation, host_fallback):
        monkeypatch.setattr(module, "to_gpu", to_gpu)
    cell(fallback)
    months = pd.DataFrame({"month": pd.period_range("2020-01", periods=4, freq="M")})
    if stays:
        assert creation.create_frame(dd.from_pandas, months, npartitions=2).compute().equals(months)
    else:
        with pytest.raises(NotImplementedError, match="PeriodDtype"):
            creation.create_frame(dd.from_pandas, months, npartitions=2)
