"""The switch, whoever uses it in whatever order."""

import threading

import dask.config
import pytest

from jupyter_gpudask.backends import BackendSwitch, check_backends
from jupyter_gpudask.errors import BackendUnavailableError


@pytest.fixture(autouse=True)
def other_settings_than_the_defaults():
    with dask.config.set({"array.backend": "mine", "dataframe.backend": "own"}):
        yield
        assert seen() == ("mine", "own")


def seen():
    return dask.config.get("array.backend"), dask.config.get("dataframe.backend")


def test_what_was_there_before_comes_back():
    switch = BackendSwitch()
    with switch.to("numpy", "pandas"):
        assert seen() == ("numpy", "pandas")
        assert switch.on
    assert seen() == ("mine", "own")
    assert not switch.on


def test_it_comes_back_after_an_error():
    with pytest.raises(KeyboardInterrupt), BackendSwitch().to("numpy", "pandas"):
        raise KeyboardInterrupt


def test_users_may_leave_in_any_order():
    switch = BackendSwitch()
    first, second = switch.to("numpy", "pandas"), switch.to("numpy", "pandas")
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert seen() == ("numpy", "pandas")
    second.__exit__(None, None, None)
    assert seen() == ("mine", "own")


def test_many_threads_leave_nothing_behind():
    switch = BackendSwitch()

    def use():
        for _ in range(200):
            with switch.to("numpy", "pandas"):
                assert switch.on

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen() == ("mine", "own")


def test_a_missing_package_is_refused_with_the_fix_and_switches_nothing(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with (
        pytest.raises(BackendUnavailableError, match="cannot import cupy and cudf"),
        BackendSwitch().to("cupy", "cudf"),
    ):
        pytest.fail("it was switched")


def test_a_backend_that_dask_would_ignore_is_refused(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    with (
        dask.config.set({"array.query-planning": True}),
        pytest.raises(BackendUnavailableError, match="query-planning"),
    ):
        check_backends("cupy", "pandas")
    check_backends("numpy", "pandas")
