"""Where data is, and its conversion to the host."""

from datetime import date

import numpy as np

from jupyter_gpudask.inspection.placement import place_of
from jupyter_gpudask.inspection.results import results_to_host


class Sparse:
    """Stands for a sparse matrix of CuPy."""

    def get(self):
        return "a matrix of SciPy"


Sparse.__module__ = "cupyx.scipy.sparse._csr"


def test_sparse_matrices_come_to_the_host_as_those_of_scipy():
    assert place_of(Sparse()) == "gpu"
    assert results_to_host({"x": [Sparse()]}) == {"x": ["a matrix of SciPy"]}


def test_an_array_of_objects_without_parts_on_the_gpu_is_not_looked_through():
    for element in (date(2024, 1, 1), np.float64(1), None, "text"):
        array = np.array([element] * 3, dtype=object)
        assert results_to_host(array) is array
    parts = np.array([{"x": Sparse()}, [Sparse()], Sparse()], dtype=object)
    assert results_to_host(parts).tolist() == [{"x": "a matrix of SciPy"}, ["a matrix of SciPy"], "a matrix of SciPy"]
