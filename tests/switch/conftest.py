"""Fixtures of the tests of dataframes; tests that Dask's array expressions lack the functions for are skipped."""

import dask
import dask.array as da
import pytest
from cudf_stand_in import Frame, Series
from lacking import is_lack_of_dask

from jupyter_gpudask.inspection import placement
from jupyter_gpudask.patches.apply import patches


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call):
    """With ``array.query-planning``, what Dask has not implemented there is skipped; a failed assertion never is."""
    report = yield
    if da.ARRAY_EXPR_ENABLED and call.excinfo is not None and report.failed and is_lack_of_dask(call.excinfo):
        path, line = call.excinfo.traceback[-1].path, call.excinfo.traceback[-1].lineno + 1
        report.outcome = "skipped"
        report.longrepr = str(path), line, f"Skipped: Dask's array expressions lack it: {call.excinfo.exconly()}"
    return report


@pytest.fixture(scope="module")
def cudf_stand_in():
    """The patches are applied, and the dataframes of `cudf_stand_in` count as those of a GPU."""
    patches.apply("kernel")
    place_of_data = placement._place_of_data
    with pytest.MonkeyPatch.context() as patch, dask.config.set(scheduler="sync"):
        # These are objects of pandas, too.
        is_ours = lambda data: isinstance(data, Frame | Series)  # noqa: E731
        patch.setattr(placement, "_place_of_data", lambda data: "gpu" if is_ours(data) else place_of_data(data))
        yield
