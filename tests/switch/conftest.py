"""Fixtures of the tests of dataframes."""

import dask
import pytest
from cudf_stand_in import Frame, Series, as_pandas, as_stand_in

from jupyter_gpudask.inspection import frames, placement
from jupyter_gpudask.patches.apply import patches


@pytest.fixture(scope="module")
def cudf_stand_in():
    """The patches are applied, and the dataframes of `cudf_stand_in` count as those of a GPU."""
    patches.apply("kernel")
    place_of_data = placement._place_of_data
    settings = {"scheduler": "sync", "dataframe.shuffle.method": "tasks"}  # on disk, the partitions become plain ones
    with pytest.MonkeyPatch.context() as patch, dask.config.set(settings):
        # These are objects of pandas, too.
        is_ours = lambda data: isinstance(data, Frame | Series)  # noqa: E731
        patch.setattr(placement, "_place_of_data", lambda data: "gpu" if is_ours(data) else place_of_data(data))
        patch.setattr(frames, "partition_to_gpu", as_stand_in)
        patch.setattr(frames, "partition_to_host", as_pandas)
        yield
