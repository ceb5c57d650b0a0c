"""The cells of benchmarks/cells.py: they can be read, and two runs of one are judged by what it gives."""

import ast
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from cells import RESULT, Cell, Run, judge, read_cells
from docstrings.values import recorded


def test_there_are_cells_for_each_page_and_each_is_code_of_its_own():
    cells = read_cells()
    assert len(cells) >= 200
    assert set(Counter(cell.page for cell in cells)) == {
        "array",
        "bag",
        "best_practices",
        "dataframe",
        "delayed",
        "futures",
        "machine_learning",
        "plots",
        "time_series",
    }
    for cell in cells:
        assert ast.parse(cell.code).body
    assert len({(cell.page, cell.name) for cell in cells}) == len(cells)


CELL = Cell("array", "a sum", "", "x.sum()")


@pytest.mark.parametrize(
    ("cpu", "gpu", "outcome", "note"),
    [
        (Run(values={RESULT: recorded(np.ones(2))}), Run(values={RESULT: recorded(np.ones(2))}), "agrees", ""),
        (Run(values={RESULT: recorded(1.0)}), Run(values={RESULT: recorded(2.0)}), "differs", "value: "),
        (Run(values={"y": recorded(1.0)}), Run(values={}), "differs", "y: a value in one run only"),
        (Run(), Run(error="TypeError: no"), "fails", "TypeError: no"),
        (Run(error="TypeError: no"), Run(), "left out", "TypeError: no"),
    ],
)
def test_runs_are_judged(cpu, gpu, outcome, note):
    row = judge(CELL, cpu, gpu)
    assert row.outcome == outcome
    assert row.note.startswith(note)


@pytest.mark.parametrize(
    ("source", "outcome"), [("df.drop_duplicates('a')", "agrees"), ("df.groupby('a').x.sum()", "differs")]
)
def test_the_order_of_rows_counts_unless_dask_leaves_it_open(source, outcome):
    rows = pd.DataFrame({"a": [1, 2, 3]}, index=[7, 8, 9])
    runs = [Run(values={RESULT: recorded(data)}) for data in (rows, rows[::-1])]
    assert judge(Cell("dataframe", "a cell", "", source), *runs).outcome == outcome
