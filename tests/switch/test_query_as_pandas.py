"""``query`` and ``eval`` are read as pandas reads them. Here cuDF is a subclass of pandas."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from cudf_stand_in import Frame
from dask.dataframe.dask_expr._expr import Eval, Query

from jupyter_gpudask.fallback.missing import DifferentResultError
from jupyter_gpudask.inspection.placement import to_gpu
from jupyter_gpudask.patches.frames.as_pandas import replaced
from jupyter_gpudask.patches.frames.query import EvalAsPandas, QueryAsPandas

pytestmark = pytest.mark.usefixtures("cudf_stand_in")

FRAME = pd.DataFrame(
    {
        "a": [1, 2, 3, 4],
        "b": [3, 0, 1, 5],
        "x": [1.0, np.nan, 2, -1],
        "f": np.array([0.1, -0.1, 0.3, 0.4], "f4"),
        "i": np.array([100, 1, 2, 3], "i1"),
        "flag": [True, False, True, False],
        "name": pd.array(["a", "b", None, "c"], dtype="string"),
        "when": pd.to_datetime(["2020-01-01", None, "2021-01-01", "2022-03-04"]),
    },
    index=[3, 5, 7, 9],
)
CONDITIONS = [
    *("a > 1", "a > 1 & b < 2", "a > 1 | b < 2 & x > 0", "a > 1 and b < 2 or flag", "not flag", "~flag"),
    *("not a > 1 & flag", "~(x > 1)", "x != 1", "x > 1 | flag", "1 < a <= 3", "a < b == flag", "flag == True"),
    *("a == 1.5", "a > -3 * (2 - 1)", "f >= 0.1", "f == -0.1", "i == 1000", "a in [1, 2]", "a not in (1, 2)"),
    *("a == [1, 2]", "a != [1, 2]", "name == 'a'", "'a' != name", "name in ['a', 'c']", "name not in ['a', 'c']"),
    *("name == ['a', 'c'] & x > 0", "when > '2020-06-01'", "'2021' <= when", "when != when", "a > @least"),
]
VALUES = [
    *("a", "-a", "a + 1", "a + b", "2 * a - b", "a / 2", "a % -3", "a ** 2", "f * 0.1", "i + 100", "a + x"),
    *("@least + a", "c = a + 1", "c=a+1", "c = a > 1\nd = c & flag", "a = 5", "c = name", " c = 1 \n\n"),
]
OF_PANDAS = [
    *("a & b", "a and b", "~a", "flag + flag", "a > 1 & b", "1 + 2", "a.max()", "a > a.mean()", "index > 1", "`a` + 1"),
    *("a if flag else b", "name > 'a'", "when in ['2021-01-01']", "when > '2021-01-01T00:00Z'", "when > 'NaT'"),
    *("x == None", "a > 1e999", "a > 9223372036854775808", "a > 1 / 0", "a in b", "a in []", "a > 'a'", "1 < 2"),
    *("a in [1, 'a']", f"a in {list(range(21))}", "a > @more", "a > @many", "a > @", "c = a = 1", "c = 1\na", "a @ b"),
    *("a > 1 and nothing", "a > 1 and", "a; b", "a.b = 1", "abs(a)", "''", "@least", "-name"),
]


def options_of(text):
    return {"local_dict": {"least": np.int64(2), "many": [1, 2]}} if "@" in text else {}


def on_gpus():
    return to_gpu(dd.from_pandas(FRAME, npartitions=2))


@pytest.mark.parametrize("text", CONDITIONS)
def test_rows_are_selected_as_in_pandas(text):
    selected = on_gpus().query(text, **options_of(text))
    assert not isinstance(selected.expr, QueryAsPandas)
    pd.testing.assert_frame_equal(selected.compute().to_pandas(), FRAME.query(text, **options_of(text)))


@pytest.mark.parametrize("text", CONDITIONS + VALUES)
def test_results_have_the_values_the_name_and_the_index_of_pandas(text):
    evaluated = on_gpus().eval(text, **options_of(text))
    assert not isinstance(evaluated.expr, EvalAsPandas)
    result, expected = evaluated.compute().to_pandas(), FRAME.eval(text, **options_of(text))
    equal = pd.testing.assert_frame_equal if expected.ndim > 1 else pd.testing.assert_series_equal
    equal(result, expected, check_dtype=False)  # comparisons of the stand-in have a nullable dtype


@pytest.mark.parametrize("text", OF_PANDAS)
@pytest.mark.parametrize(("kind", "left_to_pandas"), [(Query, QueryAsPandas), (Eval, EvalAsPandas)])
def test_other_texts_are_left_to_pandas(text, kind, left_to_pandas):
    expression = replaced(kind(on_gpus().expr, _expr=text, expr_kwargs=options_of(text)))
    assert type(expression) is left_to_pandas
    with pytest.raises(DifferentResultError, match="another way than pandas"):
        expression.operation(Frame(FRAME), text)


@pytest.mark.parametrize("text", VALUES)
def test_a_query_by_what_is_no_condition_is_left_to_pandas(text):
    assert type(replaced(Query(on_gpus().expr, _expr=text, expr_kwargs=options_of(text)))) is QueryAsPandas


@pytest.mark.parametrize(("text", "options"), [("a > 1", {"engine": "python"}), (3, {}), (b"a > 1", {})])
def test_other_options_are_left_to_pandas(text, options):
    assert type(replaced(Query(on_gpus().expr, _expr=text, expr_kwargs=options))) is QueryAsPandas
    assert type(replaced(Eval(on_gpus().expr, _expr=text, expr_kwargs=options))) is EvalAsPandas


def test_a_name_of_two_columns_is_left_to_pandas():
    frame = Frame([[1, 2, 3]], columns=["a", "a", "b"])
    expression = dd.from_pandas(pd.DataFrame({"b": [1]}), npartitions=1).map_partitions(lambda _: frame, meta=frame)
    assert type(replaced(Query(expression.expr, _expr="a > 1", expr_kwargs={}))) is QueryAsPandas


def test_partitions_on_the_host_are_given_to_pandas():
    pd.testing.assert_frame_equal(QueryAsPandas.operation(FRAME, "a & b > 1"), FRAME.query("a & b > 1"))
    pd.testing.assert_series_equal(EvalAsPandas.operation(FRAME, "a & b"), FRAME.eval("a & b"))
