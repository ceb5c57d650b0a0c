"""oracle/random_programs.py: its programs come from their seeds alone, and wrong answers are found and reduced."""

import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import program_runs as kinds
import pytest
from program_runs import FINDINGS, Outcome, Row, judge, run
from programs import Numbers, Program, Step, Table, make
from random_programs import WAYS, Pair, counts, groups, read_prepared, reduced, table

ORACLE = Path(__file__).parents[1] / "oracle"
ON_CPU = ("numpy", "pandas")


def outcomes_of(program):
    return {way: run(program, way, *ON_CPU) for ways in WAYS[program.kind] for way in ways}


@pytest.mark.parametrize(("kind", "seeds"), [("array", range(30)), ("frame", range(15))])
def test_programs_agree_with_dask_where_the_backends_are_those_of_the_cpu(kind, seeds):
    compared = 0
    for seed in seeds:
        program = make(seed, [kind])
        outcomes = outcomes_of(program)
        row = judge(program, outcomes, on_gpu=False)
        assert row.outcome not in FINDINGS, f"{row.note}\n{program.source}"
        compared += not outcomes["dask"].error
    assert compared > len(seeds) / 2


def test_a_program_is_the_same_in_every_process_and_can_be_pasted():
    code = "from programs import make; print(*(make(seed).source for seed in range(12)), sep='')"
    environment = {"PYTHONPATH": str(ORACLE), "PYTHONHASHSEED": "7"}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout == "".join(make(seed).source for seed in range(12)) + "\n"
    source = make(4, ["frame"]).source
    assert compile(source, "pasted", "exec")


WRONG = Program(
    0,
    "frame",
    {
        "v": Table({"x": ("int64", (0, 1, 2, 1)), "y": ("float64", (0.5, None, 1.0, 2.0))}, None, 3),
        "w": Table({"x": ("int64", (1,))}, None, 1),
    },
    (Step("rename", "v = v.rename(columns={'y': 'z'})"), Step("filter", "v = v[v.x > 1]"), Step("sum", "v = v + 1")),
)


def judged_with_a_mistake(program):
    """As if the switch had computed `>=` for `>`."""
    steps = tuple(replace(step, text=step.text.replace("> 1", ">= 1")) for step in program.steps)
    outcomes = outcomes_of(program) | {"switch": run(replace(program, steps=steps), "switch", *ON_CPU)}
    return judge(program, outcomes, on_gpu=False)


def test_a_wrong_answer_is_found_and_its_program_is_made_smaller():
    row = judged_with_a_mistake(WRONG)
    assert (row.outcome, row.host, row.last) == (kinds.VALUE, "as Dask", "sum")
    program, row = reduced(WRONG, row, judged_with_a_mistake, seconds=60)
    assert (row.outcome, row.last, [step.name for step in program.steps]) == (kinds.VALUE, "filter", ["filter"])
    assert program.data == {"v": Table({"x": ("int64", (1,))}, None, 1)}


def test_what_was_prepared_without_the_switch_is_compared_in_the_process_with_it(tmp_path):
    outcomes = {way: run(WRONG, way, *ON_CPU) for way in ("host", "dask")}
    other = replace(WRONG, seed=1)
    wrong = outcomes | {"dask": replace(outcomes["dask"], value=outcomes["dask"].value + 1)}
    (tmp_path / "prepared").write_bytes(pickle.dumps((WRONG, outcomes)) + pickle.dumps((other, wrong)))
    pair = Pair(*ON_CPU, 120, read_prepared(tmp_path / "prepared"))
    try:
        rows = [pair.judged_seed(seed, ["frame"])[1] for seed in (0, 1)]
    finally:
        pair.close()
    assert [(row.outcome, row.unlike_host) for row in rows] == [(kinds.AGREES, False), (kinds.AS_HOST, True)]


def test_an_error_on_one_side_only_and_a_lost_process_are_differences():
    program = Program(0, "array", {"v": Numbers("float64", (3,), ((2, 1),), 0)})
    good, bad = Outcome(np.ones(3)), Outcome(error="ValueError: no")

    def outcome(dask, switch, optimized, host=good):
        outcomes = {"host": host, "dask": dask, "switch": switch, "optimized": optimized}
        row = judge(program, outcomes, on_gpu=True)
        return row.outcome, row.way

    assert outcome(good, good, good) == (kinds.AGREES, "switch")
    assert outcome(good, bad, good) == (kinds.FAILS, "switch")
    assert outcome(good, good, bad) == (kinds.FAILS, "optimized")
    assert outcome(good, None, None) == (kinds.LOST, "switch")
    assert outcome(bad, good, good, host=bad) == (kinds.NO_ERROR, "switch")
    assert outcome(bad, good, good) == (kinds.AS_HOST, "switch")
    assert outcome(bad, bad, bad) == (kinds.AGREES, "switch")
    assert outcome(None, good, good) == (kinds.NOT_RUN, "switch")
    assert outcome(good, Outcome(np.ones(3, "float32")), good) == (kinds.TYPE, "switch")
    assert outcome(good, Outcome(np.ones(3), facts={}), good) == (kinds.AGREES, "switch")
    assert outcome(Outcome(np.ones(3), facts={"dtype": "f8"}), Outcome(np.ones(3)), good) == (kinds.FACTS, "switch")
    # Dask announces float32 for percentiles, and computes float64.
    announced = {"dtype": "float32", "shape": "(3,)"}
    single = Outcome(np.ones(3, "float32"), facts=announced)
    assert outcome(replace(good, facts=announced), single, single) == (kinds.AGREES, "switch")
    assert outcome(replace(good, facts=announced), replace(single, value=single.value * 2), single)[0] == kinds.VALUE


def test_the_order_of_rows_counts_unless_a_step_leaves_it_open():
    ordered = Program(0, "frame", {}, (Step("filter", ""),))
    frame = pd.DataFrame({"x": [1, 2, 3]})
    outcomes = {"dask": Outcome(frame), "switch": Outcome(frame[::-1])}
    assert judge(ordered, outcomes, on_gpu=True).outcome == kinds.ORDER
    opened = replace(ordered, steps=(Step("merge", "", opens_order=True), Step("filter", "")))
    assert judge(opened, outcomes, on_gpu=True).outcome == kinds.AGREES


def test_what_the_documentation_lists_is_no_finding_on_a_gpu():
    program = Program(0, "frame", {}, (Step("convert", "v = v.astype('int64')"),))
    outcomes = {"dask": Outcome(error="IntCastingNaNError"), "switch": Outcome(pd.Series([1.0, None]))}
    assert judge(program, outcomes, on_gpu=True).outcome == kinds.KNOWN
    assert judge(program, outcomes, on_gpu=False).outcome == kinds.NO_ERROR


def test_equal_differences_are_one_group_that_shows_its_smallest_program():
    rows = [
        Row(1, "frame", kinds.VALUE, "1 and 2", "merge", source="long program"),
        Row(2, "frame", kinds.VALUE, "1 and 3", "merge", source="program"),
        Row(3, "frame", kinds.FAILS, "TypeError", "merge", source="other"),
        Row(4, "frame", kinds.AGREES),
    ]
    assert [[row.seed for row in group] for group in groups(rows)] == [[2, 1], [3]]
    assert counts(rows)[kinds.VALUE] == 2
    assert "## another value: merge (2)" in list(table(rows))


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("v = v.merge(w, on='x')", "TypeError: dtype of categories must be the same; now 1"),
        ("v = v[['x', 'y']].std()", "TypeError: float() argument must be a number, not 'NAType'; now 1"),
    ],
)
def test_only_the_cause_that_is_documented_is_no_finding(text, note):
    program = replace(WRONG, steps=(Step("last", text + ".astype('category')"),))
    assert kinds.documented(program, kinds.NO_ERROR, note, on_gpu=True)
    assert not kinds.documented(program, kinds.NO_ERROR, "KeyError: category; now 1", on_gpu=True)
    note = "column value: of dtype int64 on the CPU, string on the GPUs"
    assert [bool(kinds.documented(program, kinds.TYPE, note, on_gpu=True, rows=rows)) for rows in (0, 1)] == [
        True,
        False,
    ]


def known(text, outcome, note, data=None, **facts):
    """Whether a difference of a program with one step is documented."""
    program = Program(0, "frame", {"v": data or Table({"x": ("int64", (1,))}, None, 1)}, (Step("last", text),))
    return bool(kinds.documented(program, outcome, note, on_gpu=True, **facts))


def test_zeros_of_both_signs_are_one_value_of_arrow_only():
    rows = "3 rows on the CPU, 1 on the GPUs"
    for dtype, zero, text, expected in (
        ("double[pyarrow]", -0.0, "v = v[['x']].mode()", True),
        ("double[pyarrow]", -0.0, "v = v.groupby(v['x'] // 2)['n'].min()", True),
        ("double[pyarrow]", -0.0, "v = v[v['x'] > 0]", False),
        ("double[pyarrow]", 0.0, "v = v[['x']].mode()", False),
        ("float64", -0.0, "v = v[['x']].mode()", False),
    ):
        data = Table({"x": (dtype, (0.0, zero)), "n": ("int64", (1, 2))}, None, 1)
        assert known(text, kinds.VALUE, rows, data) == expected, (dtype, zero, text)


def test_digits_of_a_decomposition_count_if_numpy_and_dask_agree():
    made = "q, r = da.linalg.qr(v.rechunk({1: -1})); v = q.T @ q\n"
    shapes = "of shape (1,) on the CPU, (2,) on the GPUs"
    for text, unlike_host, expected in (
        ("v = v[v > 1]", True, True),
        ("v = da.cbrt(v)", True, True),
        ("v = v[v > 1]", False, False),
        ("v = v + 1", True, False),
    ):
        assert known(made + text, kinds.VALUE, shapes, unlike_host=unlike_host) == expected
    assert not known("v = da.cbrt(v)", kinds.VALUE, shapes, unlike_host=True)


@pytest.mark.parametrize(
    ("text", "found", "expected"),
    [
        ("v = 3.0 ** v\nv = 3.0 > v", [False, True, True], True),  # than 9, 3 and 1
        ("v = 3.0 ** v\nv = 3.0 > v", [True, False, True], False),
        ("v = 3.0 ** v\nv = 3.0 > v", [True, True, True], False),
        ("v = 3.0 ** v\nv = 3.0 > v", [False, False, False], False),
        ("v = 3.0 ** v\nv = np.floor(v)", [9, 2, 1], True),
        ("v = 3.0 ** v\nv = np.floor(v)", [9, 2], False),
        ("v = 3.0 ** v\nv = np.floor(v)", [9, 1, 1], False),
        ("v = 3.0 * v\nv = 3.0 > v", [False, True, True], False),
        ("v = 3 ** v.astype(int)\nv = 3 > v", [False, True, True], False),
    ],
)
def test_another_last_digit_of_a_power_is_documented_if_numpy_has_the_result_then(text, found, expected):
    steps = tuple(Step(line, line) for line in text.splitlines())
    data = {"v": Numbers("float64", (3,), ((3,),), 0)}
    steps = (Step("values", "v = da.arange(3.0)[::-1]"), *steps)
    program = Program(0, "array", data, steps)
    plain = run(program, "host", *ON_CPU)
    outcomes = {"host": plain, "dask": plain, "switch": Outcome(np.array(found, plain.value.dtype))}
    assert (judge(program, outcomes, on_gpu=True).outcome == kinds.KNOWN) == expected
    assert judge(program, outcomes, on_gpu=False).outcome != kinds.KNOWN


def test_quantiles_of_rows_that_are_shuffled_for_their_groups_are_documented():
    for method, expected in (("transform('mean')", True), ("ffill()", True), ("cumsum()", False)):
        assert known(f"v = v.groupby('n')['n'].{method}\nv = v.quantile(0.5)", kinds.VALUE, "6.0 and 6.5") == expected


@pytest.mark.parametrize(
    ("text", "dtypes", "expected"),
    [
        ("v = v.drop_duplicates()\nv = v.assign(z=v['k'] - v['k'].max())", "float64 on the CPU, int64", True),
        ("v = v.drop_duplicates()\nv = v.assign(z=v['k'] - v['k'].sum())", "float64 on the CPU, int64", False),
        ("v = v.assign(z=v['k'] - v['k'].max())", "float64 on the CPU, int64", False),
        ("v = v.drop_duplicates()\nv = v.groupby('k')['n'].max()", "float64 on the CPU, int64", False),
        ("v = v.drop_duplicates()\nv = v.assign(z=v['k'] - v['k'].max())", "int64 on the CPU, object", False),
        ("v = v.merge(w, left_on='n', right_on='k', how='right')", "int64 on the CPU, object", True),
        ("v = v.merge(w, on=['n'], how='right')", "int64 on the CPU, object", False),
        ("v = v.join(w, how='outer', lsuffix='_l')", "bool on the CPU, object", True),
        ("v = v.join(w, how='inner', lsuffix='_l')", "bool on the CPU, object", False),
        ("v = v[['n', 'c']].cumprod()", "float64 on the CPU, float32", True),
        ("v = v[['n', 'c']].cumprod()", "float32 on the CPU, float64", False),
    ],
)
def test_dtypes_that_depend_on_the_rows_of_partitions_are_documented(text, dtypes, expected):
    assert known(text, kinds.TYPE, f"column z_y: of dtype {dtypes} on the GPUs") == expected
