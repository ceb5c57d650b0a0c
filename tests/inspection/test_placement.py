"""Where data is, and its conversion to the host."""

from jupyter_gpudask.inspection.placement import place_of, results_to_host


class Sparse:
    """Stands for a sparse matrix of CuPy."""

    def get(self):
        return "a matrix of SciPy"


Sparse.__module__ = "cupyx.scipy.sparse._csr"


def test_sparse_matrices_come_to_the_host_as_those_of_scipy():
    assert place_of(Sparse()) == "gpu"
    assert results_to_host({"x": [Sparse()]}) == {"x": ["a matrix of SciPy"]}
