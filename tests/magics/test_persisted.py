"""`%gpudask persisted` on a real kernel and a real cluster."""

import pytest

pytestmark = pytest.mark.cluster


def test_it_lists_results_by_variable_and_releases_them_with_their_variables(without_cluster):
    kernel = without_cluster
    assert "This kernel has no cluster" in kernel.run("%gpudask persisted").printed
    kernel.ok("started = %gpudask start --cpu 2\nimport dask.array as da\nfrom distributed import wait")
    assert kernel.ok("%gpudask persisted").value == "There are no results on the workers."
    kernel.ok(
        "x = da.random.random(2**21, chunks=2**20).persist()\n"
        "y = da.random.random(2**19, chunks=2**19).persist()\n"
        "lazy = x + 1\n"
        "results = [started.client.submit(bytes, 2**20, pure=False)]\n"
        "wait([x, y, *results])"
    )
    lines = kernel.ok("persisted = %gpudask persisted\npersisted").value.splitlines()
    assert lines[0].startswith("21.0 MiB of results on the workers: worker 0 ")
    # `lazy` needs the results of `x`, and counts too.
    assert [line.split() for line in lines[1:6]] == [
        ["variable", "results", "size"],
        ["x", "2", "16.0", "MiB"],
        ["lazy", "2", "16.0", "MiB"],
        ["y", "1", "4.0", "MiB"],
        ["results", "1", "1.0", "MiB"],
    ]
    assert lines[6] == "To release results, type: %gpudask persisted --release x,lazy"
    assert kernel.ok("persisted.total == sum(persisted.workers.values()) == 21 * 2**20").value == "True"

    assert "There is no variable nothing." in kernel.run("%gpudask persisted --release y,nothing").printed
    assert kernel.ok("bool(0 < y.min().compute() < 1)").value == "True", "none was deleted"
    assert "It belongs to %gpudask persisted." in kernel.run("%gpudask free --release y").printed
    kept = kernel.ok("%gpudask persisted --release y,x").value.splitlines()
    assert kept[0] == "Deleted: y, x."
    # The value of the cell above, of `wait`, has the futures of `y`.
    assert kept[1].startswith("21.0 MiB of results on the workers: ")
    assert [line.split()[:-2] for line in kept[3:6]] == [["lazy", "2"], ["(no", "variable)", "1"], ["results", "1"]]
    assert kept[-1].endswith("type: %reset -f out")
    released = kernel.ok("%reset -f out\nafter = %gpudask persisted --release results\nafter").value.splitlines()
    assert released[1].startswith("16.0 MiB of results on the workers: ")
    assert kernel.ok("'x' in globals(), bool(1 < lazy.min().compute() < 2)").value == "(False, True)"
    assert "There are no results on the workers." in kernel.ok("%gpudask persisted --release lazy").value
