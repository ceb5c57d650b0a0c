"""The operations on dataframes and series that a random program can have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
from program_draws import Draw, Operation, entries, fits

if TYPE_CHECKING:
    from collections.abc import Callable

    from program_draws import Made

FRAME_STEPS: list[Operation] = []
SERIES_STEPS: list[Operation] = []

_DTYPE = {"s": "str", "M": "datetime64[ns]", "m": "timedelta64[ns]", "C": "category"}
_AGGREGATIONS = "sum mean min max count size std var first last nunique prod median"
_COMPARE = "> >= < <= == !="


def kind(series: Any) -> str:
    """The character of NumPy for its dtype; also `s` for texts, `C` for categories and `?` for several columns."""
    dtype = getattr(series, "dtype", None)
    if isinstance(dtype, pd.CategoricalDtype):
        return "C"
    is_text = isinstance(dtype, pd.StringDtype) or str(dtype) == "string[pyarrow]"
    return "?" if dtype is None else "s" if is_text else str(dtype.kind)


class FrameDraw(Draw):
    """Draws what fits a dataframe or a series `v`."""

    @property
    def is_frame(self) -> bool:
        return isinstance(self.v, pd.DataFrame)

    def names(self, kinds: str) -> list[Any]:
        """The names of columns of some kinds."""
        return [name for name in dict.fromkeys(self.v.columns) if kind(self.v[name]) in kinds]

    def identifiers(self) -> list[Any]:
        """The names of columns of numbers that may stand in a text."""
        return [name for name in self.names("iuf") if isinstance(name, str) and name.isidentifier()]

    def name(self, kinds: str) -> Any:
        return self.pick(self.names(kinds))

    def quoted(self, kinds: str) -> str | None:
        name = self.name(kinds)
        return None if name is None else repr(name)

    def column(self, kinds: str) -> str | None:
        name = self.name(kinds)
        return None if name is None else f"v[{name!r}]"

    def scalar(self, of: str) -> str:
        if of == "M":
            return 'pd.Timestamp("2022-03-01")'
        if of == "m":
            return 'pd.Timedelta("7h")'
        numbers = {"i": "0 1 2 -3 5", "u": "0 1 2 -3 5", "f": "0 1 2.5 -1.5 0.5 np.nan", "b": "True False"}
        return self.word(numbers.get(of, "'a' 'b' 'cc' ''"))

    def keys(self) -> str | None:
        names = self.names("iubsCMm")
        if len(names) > 1 and self.rng.random() < 0.4:
            return repr(self.rng.sample(names, 2))
        return repr(self.rng.choice(names)) if names else None

    def condition(self) -> str | None:
        """A condition on the rows."""
        names = self.names("iufbMmsC") if self.is_frame else [None]
        if not names:
            return None
        name = self.rng.choice(names)
        text = "v" if name is None else f"v[{name!r}]"
        of = kind(self.v if name is None else self.v[name])
        if of == "b":
            return self.of(text, f"~{text}", f"{text} == True")
        if of in "sC":
            compared = f"{text} == {self.scalar('s')}", f"{text} != {self.scalar('s')}"
            chosen = f"{text}.isin(['a', 'b'])", f"{text}.isin(['a', None])", f"~{text}.isin(['a', 'B'])"
            return self.of(*compared, *chosen, f"{text}.isna()", f"{text}.notnull()")
        sign = self.word(_COMPARE)
        one = f"{text} {sign} {self.scalar(of)}"
        choices = [one, one, f"~({one})", f"{text}.isna()", f"{text}.notnull()"]
        if of in "iuf":
            choices += [f"{text}.between(0, 3)", f"{text}.isin([1, 2, 2.5])", f"({one}) | ({text} > 3)"]
            choices += [f"{text}.isin([1.0, np.nan])"]
            choices += [f"({one}) & ({text} < 4)", f"({one}) ^ ({text} < 4)"]
        other = self.column(of) if self.is_frame else None
        return self.of(*choices, *([f"{text} {sign} {other}"] if other else []))

    def locate(self) -> str | None:
        condition, name = self.condition(), self.pick(list(self.v.columns))
        columns = self.of(":", repr(name), repr([name]))
        if self.rng.random() < 0.3 and self.v.index.dtype.kind in "iuf":
            return f"v = v.loc[{self.rng.randint(0, 5)}:{self.rng.randint(5, 60)}]"
        return condition and f"v = v.loc[{condition}, {columns}]"

    def query(self) -> str | None:
        name, sign = self.pick(self.identifiers()), self.word("> <= == !=")
        tails = "", "", " or n > 5", " and n > 2", " & n > 2", " | n > 5", " & ~(n > 5 | n < 1)", " and n not in [1, 3]"
        tail = self.of(*tails) if "n" in self.v.columns else ""
        return name and f"v = v.query({f'{name} {sign} {self.rng.randint(-1, 4)}{tail}'!r})"

    def evaluate(self) -> str | None:
        one, other = self.pick(self.identifiers()), self.pick(self.identifiers())
        operation, target = self.of("+", "-", "*", "!=", "% 3 ==", "> 1 & 3 >=", "> 1 | 3 <"), self.of("", "z = ")
        return one and f"v = v.eval({f'{target}{one} {operation} {other}'!r})"

    def assign_arithmetic(self) -> str | None:
        one, other = self.column("iufb"), self.column("iufb")
        if one is None:
            return None
        right = self.of(other, other, self.scalar("f"), self.scalar("i"))
        return f"v = v.assign(z={one} {self.word('+ - * / // % ** > == !=')} {right})"

    def drop_missing(self) -> str:
        options = ["how='all'", f"subset=[{self.pick(list(self.v.columns))!r}]", "thresh=2"] if self.is_frame else []
        return f"v = v.dropna({self.of('', *options)})"

    def fill_missing(self) -> str | None:
        if self.is_frame:
            values = {name: 7 if kind(self.v[name]) != "s" else "none" for name in self.names("iufs")}
            return f"v = v.fillna({values!r})"
        return f"v = v.fillna({self.scalar(kind(self.v))})" if kind(self.v) in "iufMs" else None

    def group_and_reduce(self) -> str | None:
        keys, column = self.keys(), self.quoted("iufb")
        if keys is None or column is None:
            return None
        options = self.of("", "", ", dropna=False", ", sort=True", ", observed=True", ", observed=False")
        selected = self.of(f"[{column}]", f"[[{column}]]")
        return f"v = v.groupby({keys}{options}){selected}.{self.word(_AGGREGATIONS)}()"

    def group_and_aggregate(self) -> str | None:
        keys, names = self.keys(), self.names("iuf")
        if keys is None or not names:
            return None
        options = self.of("", "", ", dropna=False", ", sort=True", ", observed=True")
        one, other = (self.word(_AGGREGATIONS.replace("nunique", "sum")) for _ in range(2))
        first, second = self.rng.choice(names), self.rng.choice(names)
        form = self.of(
            repr(one),
            repr([one, other]),
            f"{{{first!r}: {one!r}}}",
            f"{{{first!r}: [{one!r}, {other!r}], {second!r}: {other!r}}}",
            f"total=({first!r}, {one!r}), other=({second!r}, {other!r})",
        )
        selected = f"[{first!r}]" if form.startswith(("'", "['")) else ""
        return f"v = v.groupby({keys}{options}){selected}.agg({form})"

    def group_and_accumulate(self) -> str | None:
        keys, column, method = self.keys(), self.quoted("iuf"), self.word("cumsum cumcount cumprod")
        return fits(keys, fits(column, f"v = v.groupby({keys})[{column}].{method}()"))

    def group_and_transform(self) -> str | None:
        key, column = self.quoted("i"), self.quoted("if")
        return key and column and f"v = v.groupby({key})[{column}].transform({self.word('sum mean max')!r})"

    def group_and_fill(self) -> tuple[str, str] | None:
        key, column, method = self.quoted("ibs"), self.quoted("f"), self.word("ffill bfill shift")
        made = f"v = v.groupby({key})[{column}].{method}"
        return fits(
            key,
            fits(column, (f"{made}({'1, meta=v._meta[' + column + ']' if method == 'shift' else ''})", f"{made}()")),
        )

    def group_and_relate(self) -> str | None:
        key, names = self.quoted("ibs"), [repr(name) for name in self.names("f")]
        method = self.word("corr cov")
        return fits(key and len(names) > 1, f"v = v.groupby({key})[[{', '.join(names[:2])}]].{method}()")

    def group_and_take(self) -> str | None:
        key, column = self.quoted("ibs"), self.quoted("iufs")
        method = self.word("head(2) tail(2) value_counts() idxmin() idxmax()")
        if method.startswith("idx") and not (self.v.index.is_unique and column in map(repr, self.names("if"))):
            return None
        return fits(key, fits(column and column != key, f"v = v.groupby({key})[{column}].{method}"))

    def pivot(self) -> tuple[str, str] | None:
        key, columns, values = self.quoted("ib"), self.quoted("C"), self.quoted("if")
        if key is None or columns is None or values is None or key == values:
            return None
        options = f"index={key}, columns={columns}, values={values}, aggfunc={self.word('sum mean count first')!r}"
        known = f"v.assign(**{{{columns}: v[{columns}].cat.as_known()}})"
        return f"v = {known}.pivot_table({options})", f"v = v.pivot_table({options}, observed=False)"

    def drop_duplicates(self) -> str:
        columns = f"[{self.rng.sample(list(self.v.columns), 1)!r}]" if self.is_frame and self.rng.random() < 0.6 else ""
        return f"v = v{columns}.drop_duplicates()"

    def merge(self) -> str | None:
        names = [name for name in self.names("iusC") if name in self.w.columns]
        common = [name for name in names if kind(self.v[name]) == kind(self.w[name])]
        how = self.word("inner left right outer leftsemi")
        if how == "leftsemi":
            return f"v = v.merge(w, on={common[:1]!r}, how='left', indicator=True)" if common else None
        if self.rng.random() < 0.25:
            return f"v = v.merge(w, left_index=True, right_index=True, how={how!r}, suffixes=('_l', '_r'))"
        if self.rng.random() < 0.25 and "n" in self.v.columns and "k" in self.w.columns:
            return f"v = v.merge(w, left_on='n', right_on='k', how={how!r})"
        if not common:
            return None
        keys = self.rng.sample(common, self.rng.randint(1, min(2, len(common))))
        suffixes = self.of("", ", suffixes=('', '_2')")
        return f"v = v.merge(w, on={keys!r}, how={how!r}{suffixes})"

    def accumulate(self) -> str | None:
        method = self.word("cumsum() cumprod() cummin() cummax() shift(1) shift(-2) diff() diff(2)")
        if self.is_frame:
            return fits(names := self.names("iuf"), f"v = v[{names!r}].{method}")
        return f"v = v.{method}" if kind(self.v) in "iuf" else None

    def roll(self) -> str | None:
        method = self.word("sum mean min max count std median")
        options = self.of("2", "3", "3, min_periods=1", "2, center=True")
        if self.is_frame:
            return fits(names := self.names("if"), f"v = v[{names!r}].rolling({options}).{method}()")
        return f"v = v.rolling({options}).{method}()" if kind(self.v) in "if" else None

    def head_or_tail(self) -> tuple[str, str]:
        number = self.of(1, 3, 5)
        if self.rng.random() < 0.5:
            return f"v = v.head({number}, npartitions=-1, compute=False)", f"v = v.head({number})"
        return f"v = v.tail({number}, compute=False)", f"v = v.tail({number})"

    def reduce_frame(self) -> str | None:
        names, method = self.names("iufb"), self.word("sum mean min max count std var prod any all sem")
        options = self.of("", "", "axis=1", "skipna=False" if method != "count" else "")
        return f"v = v[{names!r}].{method}({options})" if names else None

    def partitions_of_user(self) -> tuple[str, str] | None:
        column = self.quoted("if")
        call = f"part.assign(z=part[{column}] * 2)"
        return fits(column, (f"v = v.map_partitions(lambda part: {call})", f"v = (lambda part: {call})(v)"))

    def apply_to_rows(self) -> tuple[str, str] | None:
        column = self.quoted("f")
        call = f"lambda row: row[{column}] * 2, axis=1"
        host = f"v = v[[{column}]].apply({call})"
        return fits(column, (f"{host[:-1]}, meta=(None, 'float64'))", host))

    def through_parquet(self) -> tuple[str, str] | None:
        names = [name for name in self.v.columns if isinstance(name, str)]
        if len(names) < len(self.v.columns) or not names:
            return None
        chosen = self.rng.sample(names, self.rng.randint(1, len(names)))
        key = self.pick([name for name in self.names("if") if name in chosen])
        sign = self.of(">", "<=", "==", "!=")
        filters = f", filters=[({key!r}, {sign!r}, 1)]" if key is not None and self.rng.random() < 0.5 else ""
        columns = f", columns={chosen!r}" if self.rng.random() < 0.6 else ""
        selected = f"v = v[{chosen!r}]" if columns else "v = v.copy()"
        read = f"p = f'{{folder}}/{{v._name}}'; v.to_parquet(p); v = dd.read_parquet(p{columns}{filters})"
        return read, selected + (f"; v = v[v[{key!r}].notnull() & (v[{key!r}] {sign} 1)]" if filters else "")

    def through_csv(self) -> tuple[str, str] | None:
        time, other = self.quoted("M"), self.quoted("iufbs")
        options = self.of("", time and f", parse_dates=[{time}]", other and f", dtype={{{other}: str}}") or ""
        read = f"p = f'{{folder}}/{{v._name}}-*.csv'; v.to_csv(p, index=False); v = dd.read_csv(p{options})"
        host = f"import io; v = pd.read_csv(io.StringIO(v.to_csv(index=False)){options})"
        return (read, host) if all(isinstance(name, str) for name in self.v.columns) else None

    def aggregation_of_user(self) -> tuple[str, str] | None:
        key, of_texts = self.quoted("iubs"), self.rng.random() < 0.5
        column = self.quoted("s" if of_texts else "iuf")
        if key is None or column is None or key == column:
            return None
        joined = "lambda x: '+'.join(sorted(x.dropna()))"
        mean = "lambda g: (g.count(), g.sum()), lambda n, t: (n.sum(), t.sum()), lambda n, t: t / n"
        made = f"lambda g: g.apply({joined}), lambda g: g.apply({joined})" if of_texts else mean
        grouped = f"v = v.groupby({key})[{column}].agg("
        host = joined if of_texts else "lambda x: x.sum() / x.count()"
        return f"{grouped}dd.Aggregation('of_user', {made}))", f"{grouped}{host})"

    def where_frame(self) -> str | None:
        names, other = self.names("iuf"), self.of("", ", 0", ", -1.5")
        return names and f"v = v[{names!r}].{self.word('where mask')}(v[{names!r}] > 1{other})"

    def sort_values(self) -> str | None:
        name = self.quoted("iufsM")
        return name and f"v = v.sort_values({name}" + self.of("", ", ascending=False", ", na_position='first'") + ")"

    def series_convert(self) -> str | None:
        dtype = self.word(f"{_DTYPES} int32 string")
        if dtype.startswith("int") and kind(self.v) == "f" and not self.v.between(-100, 100).all():
            dtype = "bool"
        return f"v = v.astype({dtype!r})" if kind(self.v) in "iufb" else None

    def series_arithmetic(self) -> str | None:
        if kind(self.v) not in "iufb":
            return None
        right = self.of(self.scalar("i"), self.scalar("f"), "v", "v.mean()", "(v + 1)")
        return f"v = v {self.word('+ - * / // % ** > <= == !=')} {right}"

    def series_where(self) -> str | None:
        condition, other = self.condition(), self.of("", f", {self.scalar(kind(self.v))}")
        return condition and f"v = v.{self.word('where mask')}({condition}{other})"

    def series_text(self) -> str | None:
        call = self.of(
            *"len() upper() lower() title() strip() contains('a')".split(), "contains('^a', regex=True)",
            "startswith('a')", "endswith('b')", "replace('a', 'z')", "replace('[ab]', 'z', regex=True)", "slice(0, 1)",
            *"get(0) zfill(3) isalpha() isnumeric() find('b') count('a') cat(sep='-') rjust(4)".split(),
            "split('-').str[0]", "extract('([a-z])')", "match('a')", "fullmatch('a')", "contains('A', case=False)",
            "contains('a', na=False)", *"capitalize() swapcase() lstrip() partition('-')".split(),
            "pad(4, side='both')",
            *"casefold() isspace() isupper() isdecimal() rfind('b') rsplit('-') repeat(2)".split(),
            *"removeprefix('a') removesuffix('b') join('-') slice_replace(0,1,'z') index('') wrap(2) ljust(3)".split(),
            r"replace(r'([a-z])(\d)', r'\2\1', regex=True)", r"contains(r'(\w)\1')", r"contains(r'^\w+$')",
            r"extract(r'(\w)(\d)?')", "extract('(?P<one>[ab])')", "contains('A', flags=re.I)", r"count(r'\d')",
            r"replace(r'\s+', '_', regex=True)", "replace('.', '-', regex=False)", "replace('A', 'z', case=False)",
            "split('-', n=1, expand=True)", r"findall(r'\w')", r"match(r'\d+')", "startswith(('a', 'b'))", "len() + 1",
        )  # fmt: skip
        return f"v = v.str.{call}" if kind(self.v) == "s" else None

    def series_times(self) -> str | None:
        call = self.word(
            "year month day hour dayofweek quarter is_month_end dayofyear date normalize() floor('h') round('D') "
            "strftime('%Y-%m') day_name() days_in_month is_leap_year second isocalendar().week ceil('D') weekday "
            "month_name() is_quarter_start is_year_end microsecond time tz_localize('UTC') floor('15min') "
            "tz_localize('UTC').dt.tz_convert('Europe/Berlin').dt.hour tz_localize('UTC').dt.tz_convert('Asia/Tokyo')"
        )
        of_differences = self.word("total_seconds() days seconds microseconds floor('D') round('h') components.hours")
        return f"v = v.dt.{of_differences if kind(self.v) == 'm' else call}" if kind(self.v) in "Mm" else None

    def replace_values(self) -> str | None:
        of = kind(self.v) if not self.is_frame else self.word("s s f")
        if of not in "siuf" or (self.is_frame and not self.names("s" if of == "s" else "iuf")):
            return None
        texts = (
            "'a', 'z'", "to_replace='> 89', value='90'", "['a', 'b'], 'q'", "['a', 'b'], ['b', 'a']",
            "{'a': 'z', 'cc': 'a'}",
            "'^a', 'z', regex=True", "{'[ab]': '-'}, regex=True", "'', None", "'a', np.nan",
        )  # fmt: skip
        numbers = "1, 7", "[1, 2], [2, 1]", "{1: 7, 2: 9}", "[1, 2], 0", "np.nan, 0", "0, np.nan", "1, 2.5"
        how = self.of(*(texts if of == "s" else numbers))
        if self.is_frame and self.rng.random() < 0.5:
            values = self.of("{'a': 'z'}", "{'b': 'a', 'a': 'b'}") if of == "s" else self.of("{1: 7}", "{2: 0, 1: 2}")
            how = f"{{{self.name('s' if of == 's' else 'iuf')!r}: {values}}}"
        return f"v = v.replace({how})"

    def by_time(self) -> tuple[str, str] | None:
        """Bins or windows of time of some columns."""
        key, names, how = self.name("M"), self.names("iuf"), self.word(_IN_BINS)
        if key is None or not names:
            return None
        selected, rule = self.of(f"[{names!r}]", f"[{names[0]!r}]"), self.word("W MS QS YS ME QE 30D 7D 12h 90D")
        options = self.of("", "", ", closed='right'", ", label='right'")
        several = self.of("", "", "['sum', 'count']", "['min', 'nunique']")
        call = f"{selected}.resample({rule!r}{options}).{f'agg({several})' if several else f'{how}()'}"
        if self.rng.random() < 0.4:
            call = f"{selected}.rolling('{self.of(3, 40)}D').{self.word('sum count mean min max std')}()"
        times = sorted(self.v[key].dropna().unique())
        divisions = [f"pd.Timestamp({str(time)!r})" for time in (times[:1] + times[2:-1:4] + times[-1:])]
        made = f"v = v.dropna(subset=[{key!r}]).set_index({key!r}"
        host = f"{made}).sort_index(kind='stable'){call}"
        return fits(times, (f"{made}, divisions=[{', '.join(divisions)}]){call}", host))

    def group_by_derived(self) -> str | None:
        of = self.word("M M s f")
        key, column = self.column("iuf" if of == "f" else of), self.quoted("iuf")
        if key is None or column is None:
            return None
        of_times, of_texts = (".dt.month", ".dt.dayofweek", ".dt.floor('D')"), (".str.len()", ".str[:1]", ".isna()")
        derived = self.of(*{"M": of_times, "s": of_texts}.get(of, (" > 1", " // 2", ".isna()")))
        return f"v = v.groupby({key}{derived})[{column}].{self.word(_AGGREGATIONS)}()"

    def collect(self) -> tuple[str, str] | None:
        """The values of groups as lists, in any order, and their number."""
        key, column = self.quoted("iubs"), self.quoted("iufsM")
        if key is None or column is None or key == column:
            return None
        call = self.of("apply(len, meta=('n', 'int64'))", "explode()")
        made = f"v = v.groupby({key})[{column}].agg(list)"
        return f"{made}.{call}", f"{made}.{call}".replace(", meta=('n', 'int64')", "")

    def melt(self) -> str | None:
        names = self.names("iuf")
        others = [name for name in self.v.columns if name not in names]
        return fits(names, f"v = v.melt(id_vars={self.pick(others)!r}, value_vars={names!r})")

    def series_categories(self) -> tuple[str, str] | None:
        call = self.word(
            "codes as_ordered() rename_categories(str.upper) add_categories(['new']) as_unordered() "
            "remove_unused_categories() set_categories(['b',_'a']) remove_categories(['a'])"
        ).replace(",_", ", ")
        return (f"v = v.cat.as_known().cat.{call}", f"v = v.cat.{call}") if kind(self.v) == "C" else None

    def series_reduction(self) -> str:
        of_numbers = "sum mean std var prod sem any all skew kurtosis " if kind(self.v) in "iufb" else ""
        method = self.word(f"{of_numbers}{'min max ' if kind(self.v) in 'iufbMs' else ''}count nunique")
        options = self.of("", "", "skipna=False") if method in ("sum", "mean", "min", "max", "std") else ""
        return f"v = v.{method}({options})"

    def assign_method(self) -> tuple[str, str] | None:
        of = self.word("s s M m C")
        column = self.column(of)
        if column is None:
            return None
        series = FrameDraw(self.rng, pd.Series(dtype=_DTYPE[of]), None)
        made = {"s": series.series_text, "C": series.series_categories}.get(of, series.series_times)()
        texts = made if isinstance(made, tuple) else (made, made)
        one, other = (f"v = v.assign(z={text.replace('v = v.', f'{column}.')})" for text in texts)
        return one, other

    def series_map(self) -> str | None:
        if kind(self.v) in "iuf":
            return f"v = v.{self.word('map apply')}(lambda number: number * 2 + 1)"
        return "v = v.map({'a': 'one', 'b': 'two'})" if kind(self.v) == "s" else None

    def series_function(self) -> str | None:
        call = self.word(
            "sqrt(v) fmax(v,1) isnan(v) not_equal(v,1) hypot(v,v) arctan2(v,2) arctan2(2,v) fmod(v,3) sign(v) "
            "maximum(v,0) floor_divide(v,2) power(v,2) copysign(v,-1) clip(v,0,2) isfinite(v) logical_not(v)"
        )
        return f"v = np.{call}" if kind(self.v) in "if" else None


_REDUCTIONS = "mean min max sum std"
_IN_BINS = "sum count nunique prod mean min max size first last std median"
_DTYPES = "float64 float32 int64 str bool int8 category Int64 Float64 boolean uint8 int64[pyarrow]"
_OPERATIONS = "+ 1", "* 2.5", "- v[{0}]", "/ 3", "> 1", "// 2", "% 3", "!= 1"
_ROUNDINGS = "round(0)", "round(1)", "clip(0, 3)", "clip(0.5)", "abs()"
_METHODS = "add sub mul div pow rsub floordiv mod"
_OF_NUMBERS = "round(0)", "round(1)", "clip(0, 3)", "clip(upper=1)", "abs()", "isin([1, 2.5])", "between(0, 2)"
_OF_TIMES = (
    *(
        "v - v.min()",
        "v + pd.Timedelta('1D')",
        "v - pd.Timestamp('2022-01-01')",
        "v.astype('int64')",
        "v > '2022-03-01'",
    ),
    *("dd.to_datetime(v.dt.strftime('%d.%m.%Y'), format='%d.%m.%Y')", "v.astype('datetime64[s]')", "v.astype(str)"),
)
_OF_TEXTS = (
    *("v + '-x'", "'x' + v", "v + v.str.upper()", "v == v.str.lower()", "v < 'b'", "v >= v.str.strip()"),
    *("dd.to_numeric(v, errors='coerce')", "v.str.len().astype('float64')", "v.fillna('none') + 1 * 'y'"),
)
_OF_DIFFERENCES = "v + pd.Timedelta('1h')", "v / pd.Timedelta('1h')", "v > pd.Timedelta('2h')", "v * 2", "-v", "abs(v)"
_COUNTED = "", "", "dropna=False", "normalize=True", "ascending=True"
_QUANTILES = "0.5", "[0.25, 0.75]", "0"
_NUMPY = "sqrt exp floor sign isnan isfinite square log1p negative abs cos trunc"

_SHORT: dict[str, Callable[[FrameDraw], Made]] = {
    "select_column": lambda d: fits(c := d.column(d.word("s s M m C iufb iufb")), f"v = {c}"),
    "select_columns": lambda d: f"v = v[{d.several(list(dict.fromkeys(d.v.columns)))!r}]",
    "filter_rows": lambda d: fits(c := d.condition(), f"v = v[{c}]"),
    "set_item": lambda d: fits(c := d.condition(), f"v = v.copy(); v['flag'] = {c}"),
    "assign_reduction": lambda d: (c := d.column("iuf")) and f"v = v.assign(z={c} - {c}.{d.word(_REDUCTIONS)}())",
    "numbers_only": lambda d: fits(n := d.names("iuf"), f"v = v[{n!r}] " + d.of(*_OPERATIONS).format(n)),
    "function_of_numpy": lambda d: fits(c := d.column("iuf"), f"v = np.{d.word(_NUMPY)}({c})"),
    "assign_function": lambda d: fits(c := d.name("iuf"), f"v = v.assign(z=lambda frame: frame[{c!r}] * 2 + 1)"),
    "times_of_numbers": lambda d: fits(c := d.column("i"), f"v = dd.to_datetime({c}, unit='D')"),
    "columns_of_kinds": lambda d: f"v = v.select_dtypes(include={d.of('number', 'bool', 'datetime')!r})",
    "is_among": lambda d: fits(n := d.names("iuf"), f"v = v[{n!r}].isin([0, 1, 2.5])"),
    "fill_from_other": lambda _: "v = v.combine_first(w)",
    "most_frequent": lambda d: fits(c := d.quoted("iufs"), f"v = v[[{c}]].mode()"),
    "fill_forward": lambda d: f"v = v.{d.word('ffill bfill')}()",
    "is_missing": lambda d: f"v = v.{d.word('isna notnull')}()",
    "rename": lambda d: f"v = v.rename(columns={{{d.pick(list(d.v.columns))!r}: 'renamed'}})",
    "drop_columns": lambda d: f"v = v.drop(columns=[{d.pick(list(d.v.columns))!r}])",
    "convert": lambda d: fits(n := d.quoted("iub"), f"v = v.astype({{{n}: {d.word(_DTYPES)!r}}})"),
    "round_and_clip": lambda d: (n := d.names("iuf")) and f"v = v[{n!r}].{d.of(*_ROUNDINGS)}",
    "join": lambda d: f"v = v.join(w, how={d.word('inner left outer right')!r}, lsuffix='_l', rsuffix='_r')",
    "concatenate": lambda d: f"v = dd.concat([v, w], join={d.word('outer inner')!r})",
    "concatenate_columns": lambda d: fits(c := d.column("iufbs"), f"v = dd.concat([v, {c}.rename('again')], axis=1)"),
    "concatenate_itself": lambda d: fits(c := d.condition(), f"v = dd.concat([v, v[{c}]])"),
    "set_index": lambda d: fits(n := d.quoted("iufsM"), f"v = v.set_index({n})"),
    "sort_by_unique": lambda d: fits(
        "n" in d.v.columns and d.v["n"].is_unique, "v = v.sort_values('n', ascending=False)"
    ),
    "reset_index": lambda d: f"v = v.reset_index({d.of('', 'drop=True')})",
    "largest": lambda d: (n := d.quoted("if")) and f"v = v.{d.word('nlargest nsmallest')}(3, {n})[[{n}]]",
    "describe": lambda d: fits(n := d.names("if"), f"v = v[{n!r}].describe()"),
    "count_unique": lambda d: f"v = v[{list(d.v.columns)!r}].nunique()",
    "index_of_extreme": lambda d: (
        (n := d.names("if")) and d.v.index.is_unique and f"v = v[{n!r}].{d.word('idxmin idxmax')}()"
    ),
    "correlations": lambda d: (n := d.names("f")) and f"v = v[{n!r}].{d.word('corr cov')}()",
    "index_of_rows": lambda d: f"v = v.index.to_series(){d.of('', '.isna()', '.astype(str)')}",
    "repartition": lambda d: (f"v = v.repartition(npartitions={d.rng.randint(1, 3)})", "v = v"),
    "to_dummies": lambda d: fits(n := d.quoted("C"), (f"v = dd.get_dummies(v[{n}])", f"v = pd.get_dummies(v[{n}])")),
    "series_from_left": lambda d: kind(d.v) in "iuf" and f"v = {d.word('2 0.5 -3')} {d.word('- / // % **')} v",
    "series_method_with_fill": lambda d: fits(kind(d.v) == "f", f"v = v.{d.word(_METHODS)}(v.shift(1), fill_value=0)"),
    "series_condition": lambda d: fits(c := d.condition(), f"v = {c}"),
    "series_numbers": lambda d: fits(kind(d.v) in "iuf", f"v = v.{d.of(*_OF_NUMBERS)}"),
    "series_of_texts": lambda d: fits(kind(d.v) == "s", f"v = {d.of(*_OF_TEXTS)}"),
    "series_of_differences": lambda d: fits(kind(d.v) == "m", f"v = {d.of(*_OF_DIFFERENCES)}"),
    "series_of_times": lambda d: fits(kind(d.v) == "M", f"v = {d.of(*_OF_TIMES)}"),
    "value_counts": lambda d: f"v = v.value_counts({d.of(*_COUNTED)})",
    "unique": lambda d: ("v = v.unique()", f"v = pd.Series(v.unique(), name={d.v.name!r})"),
    "series_to_frame": lambda d: "v = v." + d.of("to_frame()", "to_frame(name='col')", "reset_index()"),
    "series_rename": lambda _: "v = v.rename('other')",
    "series_missing": lambda d: f"v = v.{d.word('isna notnull')}()",
    "series_group": lambda d: kind(d.v) in "if" and f"v = v.groupby(v > 1).{d.word('sum count max mean')}()",
    "series_quantile": lambda d: fits(kind(d.v) in "if" and len(d.v.dropna()), f"v = v.quantile({d.of(*_QUANTILES)})"),
}

_TABLE = """
F:select_column*14 F:select_columns FS:filter_rows*3 F:locate F:query F:evaluate F:assign_arithmetic*2 F:set_item
F:assign_reduction F:numbers_only F:function_of_numpy*2 F:where_frame FS:drop_missing FS:fill_missing
FS:fill_forward F:is_missing F:rename F:drop_columns F:convert F:round_and_clip F:group_and_reduce*5
F:group_and_aggregate*5 F:group_and_accumulate F:group_and_transform FS:drop_duplicates F:merge*4 F:join
F:concatenate*2 F:concatenate_columns F:concatenate_itself F:set_index F:sort_values*2 F:sort_by_unique
F:reset_index FS:accumulate*2 FS:roll*2 F:head_or_tail F:largest F:describe F:reduce_frame*3 F:count_unique
F:index_of_extreme F:correlations F:index_of_rows F:partitions_of_user F:apply_to_rows F:repartition F:to_dummies
F:through_parquet*2 F:through_csv S:series_arithmetic*3 S:series_from_left S:series_method_with_fill
S:series_condition*2 S:series_where*2 S:series_convert*2 S:series_numbers*2 S:series_text*8 S:series_times*6
S:series_of_times*2 S:series_categories*6 S:value_counts*2 S:unique S:series_reduction*4 F:assign_method*12
S:series_map FS:replace_values*3 F:by_time*16 F:group_by_derived*3 F:collect F:melt F:aggregation_of_user*2
S:series_of_texts*4 S:series_of_differences S:series_to_frame S:series_rename S:series_missing S:series_group
S:series_quantile S:series_function F:group_and_fill*2 F:group_and_relate F:group_and_take*3 F:pivot*4
F:assign_function F:times_of_numbers F:columns_of_kinds F:is_among F:fill_from_other F:most_frequent
"""
"""Whether each is one of frames or of series, and how often it is chosen, if more than once; the order counts."""

_ORDER = {
    "needs_order": "fill_forward group_and_accumulate accumulate roll head_or_tail group_and_fill group_and_take "
    "series_method_with_fill",
    "opens_order": "group_and_transform group_and_fill fill_from_other most_frequent drop_duplicates merge join "
    "set_index sort_values largest value_counts unique collect melt",
    "order_of_library": "aggregation_of_user group_and_reduce group_and_aggregate group_by_derived series_group "
    "group_and_relate pivot",
}

for _lists, _name, _weight in entries(_TABLE):
    _make = _SHORT.get(_name) or getattr(FrameDraw, _name)
    _facts = {fact: _name in names.split() for fact, names in _ORDER.items()}
    for _list, _letter in ((FRAME_STEPS, "F"), (SERIES_STEPS, "S")):
        _list += [Operation(_name, FrameDraw.maker(_make), **_facts)] * _weight * (_letter in _lists)
