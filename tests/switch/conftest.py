"""Fixtures of the tests of dataframes."""

import pytest
from cudf_stand_in import in_use


@pytest.fixture(scope="module")
def cudf_stand_in():
    """The patches are applied, and the dataframes of `cudf_stand_in` count as those of a GPU."""
    with in_use():
        yield
