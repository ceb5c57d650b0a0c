"""What the magics show: the cost and the progress of cells, and tables and lines in a notebook."""

import pytest

from jupyter_gpudask.magics.cell_footer import CellProgress, CellSummary, cost_of, format_energy
from jupyter_gpudask.magics.output import format_time, html_table
from jupyter_gpudask.magics.settings import MagicsSettings
from jupyter_gpudask.protocol.messages import Ready
from jupyter_gpudask.protocol.state import ClusterState, GpuState, WorkState


def test_a_quantity_of_a_total_is_not_broken_into_two_lines():
    table = html_table(("memory",), [("1.0 of 140 GiB",), ("20 MiB of 140 GiB",), ("pid 8 (2 GiB), pid 9",)])
    assert ">1.0&nbsp;of&nbsp;140&nbsp;GiB<" in table
    assert ">20&nbsp;MiB&nbsp;of&nbsp;140&nbsp;GiB<" in table
    assert ">pid&nbsp;8 (2&nbsp;GiB), pid&nbsp;9<" in table


def summary_of_a_cell(**values):
    return CellSummary(
        libraries=("NumPy",),
        cluster="the CPU cluster, 1 worker",
        seconds=1.5,
        tasks=12,
        peak=None,
        peak_gpu=None,
        spilled=0,
        energy=None,
        cost=None,
        on_host=(),
        **values,
    )


def test_the_line_under_a_cell_ends_with_the_time_in_a_notebook():
    summary = summary_of_a_cell(ended=1e9)
    assert str(summary) == "NumPy on the CPU cluster, 1 worker · 1.5 s · 12 tasks"
    assert f"· 12 tasks · {format_time(1e9)}</div>" in summary.to_html()


def test_the_line_under_a_cell_names_several_lost_workers():
    lost = (("worker 1", "exceeded its memory limit", 2), ("worker 0", "was killed by signal 9", 1))
    assert str(summary_of_a_cell(lost_workers=lost)).endswith(
        " · lost worker 1 (exceeded its memory limit, 2 times), worker 0 (was killed by signal 9): "
        "their work was done again"
    )


GPU = GpuState(index=0, uuid="GPU-0", name="NVIDIA H200")


@pytest.mark.parametrize(
    ("price", "currency", "gpus", "seconds", "text"),
    [
        (3, "USD", 2, 3.4, "0.0057 USD"),
        (2.5, "EUR", 8, 3600, "20.00 EUR"),
        (3, "USD", 0, 3600, None),
        (0, "", 8, 3600, None),
    ],
)
def test_a_cell_costs_its_gpus_for_its_time_at_the_price_of_the_kernel_or_else_of_the_server(
    price, currency, gpus, seconds, text
):
    cluster = {"engine": "cuda", "address": "", "credentials": None, "dashboard_port": None, "workers": 1, "pid": 1}
    ready = Ready(**cluster, gpus=[GPU] * gpus, price_per_gpu_hour=price, currency=currency)
    settings = MagicsSettings()
    assert cost_of(settings, ready, seconds) == text
    settings.price_per_gpu_hour = 4
    assert cost_of(settings, ready, 3600) == (f"{4 * gpus:.2f} USD" if gpus else None)


def test_energy_is_in_watt_hours():
    assert [format_energy(joules) for joules in (36, 1260, 360_000, 3.6e7)] == [
        "0.01 Wh",
        "0.35 Wh",
        "100 Wh",
        "10,000 Wh",
    ]


@pytest.mark.parametrize(
    ("work", "line"),
    [
        (WorkState(tasks=100, blocks=100, done=25, seconds_left=30), "25 of 100 tasks done · 10 s · about 30 s left"),
        (WorkState(tasks=10, blocks=144, done=23, seconds_left=200), "23 of 144 blocks done · 10 s · about 3 min left"),
        (WorkState(tasks=1, blocks=1, done=0), "0 of 1 task done · 10 s"),
        (
            WorkState(tasks=9, blocks=1000, done=99, seconds_left=14400),
            "99 of 1,000 blocks done · 10 s · about 4.0 h left",
        ),
        (WorkState(tasks=5, blocks=5, done=5, seconds_left=0.0), "5 of 5 tasks done · 10 s"),
    ],
)
def test_the_progress_is_that_of_blocks_where_tasks_compute_several(work, line):
    state = ClusterState(engine="cpu", status="ready", time=0, work=work)
    assert str(CellProgress(state, 10)) == line
