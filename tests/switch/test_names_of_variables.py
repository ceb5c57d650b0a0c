"""The user's names for collections are looked for among variables of any kind, which other threads may change."""

import sys
import threading

import dask.array as da
import pytest

import __main__
from jupyter_gpudask.inspection.user_code import names_behind, names_of
from jupyter_gpudask.switch.moving import host_collections


class Unbound:
    """As a proxy outside of what it stands for: it raises when it is asked for anything."""

    def __getattr__(self, name):
        raise RuntimeError("working outside of context")


def test_a_variable_that_raises_when_it_is_looked_at_is_no_collection(monkeypatch):
    array = da.ones(4, chunks=2)
    monkeypatch.setattr(__main__, "aaa_proxy", Unbound(), raising=False)
    monkeypatch.setattr(__main__, "named", array, raising=False)
    assert names_behind(array + 1)["host"] == ["named"]
    assert host_collections("aaa_proxy + named", vars(__main__), ("cupy", "cudf")) == {"named": 1}


def test_a_variable_that_the_cell_assigns_first_is_not_one_from_outside():
    namespace = {"x": da.ones(2), "y": da.ones(2)}
    for code, read in (("x = 1\nx + y", {"y": 2}), ("if True:\n    x = 1\nx + y", {"y": 3, "x": 3})):
        assert host_collections(code, namespace, ("cupy", "cudf")) == read


@pytest.fixture
def short_turns():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("short_turns")
def test_another_thread_may_bind_variables_meanwhile():
    array, done = da.ones(4, chunks=2), threading.Event()

    def bind():
        number = 0
        while not done.is_set():
            number += 1
            setattr(__main__, f"bound_{number % 500}", number)
            __main__.__dict__.pop(f"bound_{(number + 250) % 500}", None)

    thread = threading.Thread(target=bind)
    thread.start()
    try:
        for _ in range(300):
            assert names_of(array) == []
    finally:
        done.set()
        thread.join()
        for name in [name for name in vars(__main__) if name.startswith("bound_")]:
            delattr(__main__, name)
