"""The cost of a cell."""

import pytest

from jupyter_gpudask.magics.cell_footer import Price, format_energy
from jupyter_gpudask.magics.settings import MagicsSettings
from jupyter_gpudask.protocol import Ready

READY = Ready(engine="cuda", address="", credentials=None, dashboard_port=None, workers=1, pid=1)


@pytest.mark.parametrize(
    ("price", "gpus", "seconds", "text"),
    [
        (Price(3, "USD"), 2, 3.4, "0.0057 USD"),
        (Price(2.5, "EUR"), 8, 3600, "20.00 EUR"),
        (Price(3, "USD"), 0, 3600, None),
        (Price(0, ""), 8, 3600, None),
    ],
)
def test_a_cell_costs_its_gpus_for_its_time(price, gpus, seconds, text):
    assert price.cost(gpus, seconds) == text


def test_the_price_of_the_kernel_comes_before_that_of_the_server():
    settings = MagicsSettings()
    assert Price.of(settings, READY).per_gpu_hour == 0
    served = READY.model_copy(update={"price_per_gpu_hour": 3, "currency": "EUR"})
    assert Price.of(settings, served) == Price(3, "EUR")
    settings.price_per_gpu_hour = 4
    assert Price.of(settings, served) == Price(4, "USD")


def test_energy_is_in_watt_hours():
    assert [format_energy(joules) for joules in (36, 1260, 360_000, 3.6e7)] == [
        "0.01 Wh",
        "0.35 Wh",
        "100 Wh",
        "10,000 Wh",
    ]
