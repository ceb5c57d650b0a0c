"""Texts on GPUs have the results of pandas. Here cuDF is a subclass of pandas; with a GPU it is cuDF itself."""

import importlib.util

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from cudf_stand_in import gpu_cell, in_use

from jupyter_gpudask.errors import NotOnGpuError
from jupyter_gpudask.fallback.log import fallback_log
from jupyter_gpudask.inspection.placement import place_of, to_gpu, to_host
from jupyter_gpudask.inspection.results import results_to_host
from jupyter_gpudask.overlay import CellRecord
from jupyter_gpudask.patches.frames.as_pandas import with_dtype
from jupyter_gpudask.patches.frames.texts import pattern_of
from jupyter_gpudask.switch.context import switched_to

PLAIN = ["this is. an? example", "a1-b22", None, "", "  pad\t", "x.y.z", "CamelCase9", "12", "aa bb", "A_b@c.org"]
BEYOND_ASCII = ["Straße İstanbul ß", "łódź", "½ ²", None, "a\xa0b", "\u3000c", "a", "", "١٢", "Ǆ"]
LINES = ["a\n", "a\nb", "ab", None, "1\n2", "\n"]

HAS_CUDF = importlib.util.find_spec("cudf") is not None


@pytest.fixture(scope="module", params=["stand-in", pytest.param("cudf", marks=pytest.mark.gpu)])
def cell(request):
    """A function that enters a cell for GPUs, of cuDF or of the stand-in for it."""
    if request.param == "cudf":
        if not HAS_CUDF:
            pytest.skip("needs cuDF and a GPU")
        yield lambda fallback: switched_to("cupy", "cudf", CellRecord(fallback=fallback, results="host"))
        return
    with in_use():
        yield lambda fallback: gpu_cell(fallback=fallback, results="host")


def series_of(texts):
    return dd.from_pandas(pd.Series(texts, dtype="string[pyarrow]", name="s"), npartitions=2, sort=False)


def values(result):
    """The values of a Series or dataframe, with `None` for those that are missing."""
    frame = pd.DataFrame(result).astype(object)
    return frame.where(frame.notna(), None).to_numpy().tolist()


def on_both(cell, compute, texts, fallback="host"):
    """What it gives on the CPU and in a cell, and how many partitions of the cell ran on the CPU."""
    with dask.config.set(scheduler="sync"):
        expected = compute(series_of(texts)).compute()
        before = fallback_log.blocks.copy()
        with cell(fallback):
            series = to_gpu(series_of(texts))
            assert place_of(series) == "gpu"
            result = results_to_host(compute(series).compute())
    return expected, result, (fallback_log.blocks - before).total()


def assert_same(cell, compute, texts):
    expected, result, blocks = on_both(cell, compute, texts)
    assert values(result) == values(expected)
    assert result.isna().equals(expected.isna())
    return blocks


ON_GPU = [
    lambda s: s.str.contains("a"),
    lambda s: s.str.contains("a.", regex=False),
    lambda s: s.str.contains(r"\d"),
    lambda s: s.str.contains(r"^\w+@[\w.-]+\.org$"),
    lambda s: s.str.contains("(?:aa|is)[. ]"),
    lambda s: s.str.contains("a", na=False),
    lambda s: s.str.contains("a", na=True),
    lambda s: ~s.str.contains("a"),
    lambda s: s[s.str.contains("a")],
    lambda s: s[~s.str.contains("a", na=False)],
    lambda s: s.str.match(r"[a-z]\d"),
    lambda s: s.str.startswith("a"),
    lambda s: s.str.count(r"[a-c]"),
    lambda s: s.str.extract(r"(\d)", expand=False),
    lambda s: s.str.extract(r"(?P<letter>[a-z])(?P<digit>\d)"),
    lambda s: s.str.extract("(a)?(1)"),
    lambda s: s.str.extract("((a)|(b))+"),
    lambda s: s.str.partition("."),
    lambda s: s.str.rpartition("a"),
    lambda s: s.str.replace(r"\s+", "_", regex=True),
    lambda s: s.str.replace(r"([a-z])(\d)", "-", regex=True),
    lambda s: s.str.replace("a", r"\1"),
    lambda s: s.str.split(pat=r"[.-]", n=1, expand=True),
    lambda s: s.str.split(n=1, expand=True),
    lambda s: s.str.strip(),
    lambda s: s.str.join("-"),
    lambda s: s.str.join(""),
    lambda s: s.str.upper(),
    lambda s: s.str.swapcase(),
    lambda s: s.str.title(),
    lambda s: s.str.isdigit(),
    lambda s: s.str.isalnum(),
    lambda s: s.str.istitle(),
    lambda s: s.str.len(),
]


@pytest.mark.parametrize("compute", ON_GPU)
def test_texts_of_ascii_are_those_of_pandas_on_the_gpu(cell, compute):
    assert assert_same(cell, compute, PLAIN) == 0


ON_HOST = [
    lambda s: s.str.contains(r"(.)\1"),
    lambda s: s.str.contains("STRASSE|camel", flags=2),
    lambda s: s.str.contains("CAMEL", case=False),
    lambda s: s.str.contains("(?i)CAMEL"),
    lambda s: s.str.contains("a(?=1)"),
    lambda s: s.str.contains("(?<!a)1"),
    lambda s: s.str.match("(?P<a>.)(?P=a)"),
    lambda s: s.str.fullmatch("a+ b+"),
    lambda s: s.str.count("x*"),
    lambda s: s.str.count("^a"),
    lambda s: s.str.count(r"\bis|x"),
    lambda s: s.str.contains("[[:digit:]]"),
    lambda s: s.str.count("A", flags=2),
    lambda s: s.str.replace(r"([a-z])(\d)", r"\2\1", regex=True),
    lambda s: s.str.replace(r"(?P<a>[a-z])\d", r"\g<a>", regex=True),
    lambda s: s.str.replace("A", "z", case=False, regex=True),
    lambda s: s.str.replace("b*", "-", regex=True),
    lambda s: s.str.split(pat="([.-])", n=1, expand=True),
]


@pytest.mark.parametrize("compute", ON_HOST)
@pytest.mark.filterwarnings("ignore:This pattern is interpreted as a regular expression", "ignore:Possible nested set")
def test_a_pattern_that_cudf_matches_otherwise_is_matched_on_the_host(cell, compute):
    assert assert_same(cell, compute, PLAIN) == 2
    with pytest.raises(NotOnGpuError):
        on_both(cell, compute, PLAIN, "strict")


BY_KIND = [
    *("capitalize", "lower", "swapcase", "title", "upper", "isalnum", "isalpha", "isdecimal", "isdigit", "islower"),
    *("isnumeric", "istitle", "isupper"),
]


@pytest.mark.parametrize(
    "compute",
    [
        *(lambda s, name=name: getattr(s.str, name)() for name in BY_KIND),
        lambda s: s.str.replace(r"\w", "w", regex=True),
        lambda s: s.str.contains(r"\d"),
        lambda s: s.str.contains(r"\bc"),
        lambda s: s.str.extract(r"(\d)", expand=False),
        lambda s: s.str.count(r"[\s\d]"),
    ],
)
def test_only_partitions_with_characters_beyond_ascii_are_computed_on_the_host(cell, compute):
    assert assert_same(cell, compute, [*BEYOND_ASCII, *PLAIN]) == 1
    with pytest.raises(NotOnGpuError):
        on_both(cell, compute, BEYOND_ASCII, "strict")


@pytest.mark.parametrize(
    "compute",
    [
        lambda s: s.str.strip(),
        lambda s: s.str.split(n=1, expand=True),
        lambda s: s.str.isspace(),
        lambda s: s.str.replace(r"\s+", "_", regex=True),
    ],
)
def test_only_partitions_with_other_spaces_are_computed_on_the_host(cell, compute):
    assert assert_same(cell, compute, ["łódź ½", None, "\u3000c a", "ß "]) == 1


@pytest.mark.parametrize("compute", [lambda s: s.str.contains(r"a$"), lambda s: s.str.replace(r"\W", "-", regex=True)])
def test_ends_of_lines_are_those_of_pandas(cell, compute):
    assert assert_same(cell, compute, LINES) == 2


def test_parts_of_texts_as_columns_have_their_dtype(cell):
    expected, result, _ = on_both(cell, lambda s: s.str.split(n=1, expand=True), PLAIN)
    pd.testing.assert_frame_equal(result, expected)


def test_texts_among_objects_remain_texts(cell):
    def compute(series):
        groups = series.to_frame().assign(n=1).groupby("n").s.agg(list).explode()
        assert groups.str.rjust(12)._meta.dtype == "float64"
        return groups.str.rjust(12)

    expected, result, _ = on_both(cell, compute, ["a.b", "c", "d e", "f"])
    assert sorted(values(result)) == sorted(values(expected)) == [[each.rjust(12)] for each in ("c", "f", "a.b", "d e")]


def test_lists_of_missing_texts_are_missing_texts(cell):
    expected, result, _ = on_both(cell, lambda s: s.str.split(" "), PLAIN)
    assert result[2] is expected[2] is pd.NA
    moved = to_host(to_gpu(series_of(PLAIN)).str.split(" ").to_frame()).expr
    frame = pd.DataFrame({"s": [["a"], None], "t": ["b", None]}, dtype=object)  # as cuDF's, of which one has lists
    result = moved.operation(frame, None, moved.missing)
    assert result.s[1] is pd.NA
    assert result.t[1] is None


def test_the_texts_of_lists_are_joined(cell):
    assert_same(cell, lambda s: s.str.split(" ").str.join("-"), ["a b", "c", "", None])


@pytest.mark.parametrize("pattern", [r"a\.b", r"[^,;]+", "x{2,3}?y", r"\A\w+\Z", "(?:a|bc)+", "é", r"[\w.+-]+@", r"\$"])
def test_a_pattern_that_cudf_has_is_matched_on_the_gpu(pattern):
    assert not pattern_of("contains", pattern).reason


@pytest.mark.parametrize(
    "pattern", ["a++", "(?>a)", "(?i:a)", "(?s).", "[a-z-9]", r"\x41", r"\N{BULLET}", "a{,2}b", "a{2000}", "(a|)b", "["]
)
def test_a_pattern_that_cudf_lacks_is_not(pattern):
    assert pattern_of("contains", pattern).reason


def test_counts_of_which_some_are_missing_are_integers_on_the_host_too(cell):
    expected, result, on_host = on_both(cell, lambda s: s.str.count(r"\d"), BEYOND_ASCII)
    assert on_host
    assert result.dtype == expected.dtype
    assert values(result) == values(expected)


def test_counts_with_a_missing_one_have_the_dtype_of_the_metadata_if_it_can_be_missing():
    counts = pd.Series([1.0, float("nan")])
    assert with_dtype(counts, pd.Int64Dtype()).tolist() == [1, pd.NA]
    assert with_dtype(counts, np.dtype("int64")) is counts
