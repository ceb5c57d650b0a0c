"""The switch, whoever uses it in whatever order, and who sees it."""

import asyncio
import contextvars
import json
import pickle
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool
from types import SimpleNamespace

import dask.config
import pytest
from dask.array.backends import array_creation_dispatch
from dask.dataframe.backends import dataframe_creation_dispatch

from jupyter_gpudask.errors import BackendUnavailableError
from jupyter_gpudask.overlay import Overlay
from jupyter_gpudask.switch.context import check_backends, switched_to

OUTSIDE = ("mine", "own")
INSIDE = ("numpy", "pandas")


@pytest.fixture(autouse=True)
def other_settings_than_the_defaults():
    with dask.config.set({"array.backend": "mine", "dataframe.backend": "own"}):
        yield
        assert seen() == OUTSIDE


def seen():
    config = dask.config.get("array.backend"), dask.config.get("dataframe.backend")
    assert config == (array_creation_dispatch.backend, dataframe_creation_dispatch.backend)
    return config


def test_it_holds_inside_and_not_outside():
    with switched_to(*INSIDE):
        assert seen() == INSIDE
    assert seen() == OUTSIDE


def test_it_ends_with_an_error():
    with pytest.raises(KeyboardInterrupt), switched_to(*INSIDE):
        raise KeyboardInterrupt


def test_an_interrupt_while_it_begins_leaves_it_off(monkeypatch):
    enter = Overlay.enter

    def interrupted(self):
        enter(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(Overlay, "enter", interrupted)
    with pytest.raises(KeyboardInterrupt), switched_to(*INSIDE):
        pytest.fail("it began")
    assert seen() == OUTSIDE


def test_users_may_leave_in_any_order():
    first, second = switched_to(*INSIDE), switched_to("numpy", "pandas")
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert seen() == INSIDE
    second.__exit__(None, None, None)
    assert seen() == OUTSIDE


def test_another_thread_does_not_see_it():
    entered, looked = threading.Event(), threading.Event()
    views = []

    def look():
        entered.wait(30)
        views.append(seen())
        looked.set()

    thread = threading.Thread(target=look)
    thread.start()
    with switched_to(*INSIDE):
        entered.set()
        assert looked.wait(30)
    thread.join()
    assert views == [OUTSIDE]


def test_a_thread_that_is_started_inside_sees_it_until_it_ends():
    views, ended = [], threading.Event()

    def look():
        views.append(seen())
        begun.set()
        ended.wait(30)
        views.append(seen())

    begun = threading.Event()
    with switched_to(*INSIDE):
        thread = threading.Thread(target=look)
        thread.start()
        assert begun.wait(30)
    ended.set()
    thread.join()
    assert views == [INSIDE, OUTSIDE]


def test_an_older_pool_sees_it_for_what_it_is_handed_inside_alone():
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(seen).result(30) == OUTSIDE
        with switched_to(*INSIDE):
            assert pool.submit(seen).result(30) == INSIDE
            assert list(pool.map(lambda _: seen(), range(2))) == [INSIDE, INSIDE]
        assert pool.submit(seen).result(30) == OUTSIDE


@pytest.mark.parametrize(
    "call",
    [
        lambda pool: pool.apply(seen),
        lambda pool: pool.apply_async(func=seen).get(30),
        lambda pool: pool.map(lambda _: seen(), range(3))[2],
        lambda pool: pool.starmap(lambda _, __: seen(), [(1, 2)] * 9)[8],
        lambda pool: list(pool.imap(lambda _: seen(), range(3)))[2],
        lambda pool: list(pool.imap_unordered(lambda _: seen(), range(3), 2))[2],
    ],
)
def test_an_older_pool_of_multiprocessing_sees_it_for_what_it_is_handed_inside_alone(call):
    with ThreadPool(2) as pool:
        assert call(pool) == OUTSIDE
        with switched_to(*INSIDE):
            assert call(pool) == INSIDE
        assert call(pool) == OUTSIDE


def test_a_task_that_outlives_it_sees_it_no_more():
    async def cell():
        ended = asyncio.Event()

        async def task():
            views = [seen()]
            begun.set()
            await ended.wait()
            return [*views, seen()]

        begun = asyncio.Event()
        with switched_to(*INSIDE):
            running = asyncio.create_task(task())
            await begun.wait()
        ended.set()
        return await running

    assert asyncio.run(cell()) == [INSIDE, OUTSIDE]


def test_two_at_the_same_time_do_not_see_each_other():
    async def cell(array, meanwhile):
        with dask.config.set({"array.backend": array}) if array == "mine" else switched_to(array, "pandas"):
            await meanwhile.wait()
            return dask.config.get("array.backend")

    async def both():
        meanwhile = asyncio.Event()
        tasks = [asyncio.create_task(cell(array, meanwhile)) for array in ("numpy", "mine")]
        await asyncio.sleep(0)
        meanwhile.set()
        return await asyncio.gather(*tasks)

    assert asyncio.run(both()) == ["numpy", "mine"]


def test_it_can_be_left_from_another_context():
    cell = switched_to(*INSIDE)
    entered = contextvars.copy_context()
    entered.run(cell.__enter__)
    assert (seen(), entered.run(seen)) == (OUTSIDE, INSIDE)
    cell.__exit__(None, None, None)
    assert (seen(), entered.run(seen)) == (OUTSIDE, OUTSIDE)


def test_a_setting_that_is_made_inside_holds_inside():
    with switched_to(*INSIDE):
        with dask.config.set({"array.backend": "another"}):
            assert seen()[0] == "another"
        assert seen() == INSIDE
        dask.config.set({"array.backend": "another"})
        assert seen()[0] == "another"
    assert seen() == OUTSIDE


def test_a_setting_that_is_undone_after_its_end_does_not_bring_it_back():
    setting = dask.config.set
    with switched_to(*INSIDE):
        late = setting({"array.backend": "another"})
        context = contextvars.copy_context()
    context.run(late.__exit__, None, None, None)
    assert (seen(), context.run(seen)) == (OUTSIDE, OUTSIDE)


def test_a_refresh_of_the_configuration_leaves_it_on():
    kept = json.loads(json.dumps(dask.config.config))
    with switched_to(*INSIDE):
        dask.config.refresh()
        assert seen() == INSIDE
    dask.config.update(dask.config.config, kept)


def test_nothing_of_it_travels():
    with switched_to(*INSIDE):
        assert json.loads(json.dumps(dask.config.config))["array"]["backend"] == "mine"
        assert type(pickle.loads(pickle.dumps(dask.config.get("array.backend")))) is str  # noqa: S301


def test_many_threads_leave_nothing_behind():
    def use():
        for _ in range(200):
            with switched_to(*INSIDE):
                assert seen() == INSIDE
            assert seen() == OUTSIDE

    with ThreadPoolExecutor(8) as pool:
        for used in [pool.submit(use) for _ in range(8)]:
            used.result()


def test_a_missing_package_is_refused_with_the_fix_and_switches_nothing(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(BackendUnavailableError, match="cannot import cupy and cudf"), switched_to("cupy", "cudf"):
        pytest.fail("it was switched")


def test_dataframes_of_cudf_are_refused_beside_cudf_pandas(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    monkeypatch.setitem(sys.modules, "cudf.pandas", SimpleNamespace(LOADED=True))
    with pytest.raises(BackendUnavailableError, match=r"in which cudf\.pandas .* is loaded"):
        check_backends("numpy", "cudf")
    check_backends("cupy", "pandas")
