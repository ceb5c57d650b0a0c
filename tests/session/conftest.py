"""Fixtures for tests that connect to schedulers from this process."""

import asyncio
import gc
import warnings

import pytest
from tornado.ioloop import IOLoop


async def make_loop():
    """Make a loop of Tornado, which keeps a loop that was closed, with its connections, until the next one is made."""
    IOLoop.current()


def collect_sockets():
    """Collect the sockets that Dask leaves open when an attempt to connect is cancelled."""
    asyncio.run(make_loop())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(autouse=True)
def sockets_of_a_test():
    yield
    collect_sockets()


@pytest.fixture(scope="module", autouse=True)
def sockets_of_a_file():
    """Set up before, and so torn down after, the clusters and clients that the tests of a file share."""
    yield
    collect_sockets()
