"""`%gpudask held` on a real kernel and a real cluster."""

import pytest

pytestmark = pytest.mark.cluster


def test_held_lists_results_by_variable_and_releases_them_with_their_variables(without_cluster):
    kernel = without_cluster
    assert "This kernel has no cluster" in kernel.run("%gpudask held").printed
    kernel.ok("started = %gpudask start --cpu 2\nimport dask.array as da\nfrom distributed import wait")
    assert kernel.ok("%gpudask held").value == "The workers hold no results."
    kernel.ok(
        "x = da.random.random(2**21, chunks=2**20).persist()\n"
        "y = da.random.random(2**19, chunks=2**19).persist()\n"
        "lazy = x + 1\n"
        "results = [started.client.submit(bytes, 2**20, pure=False)]\n"
        "wait([x, y, *results])"
    )
    lines = kernel.ok("held = %gpudask held\nheld").value.splitlines()
    assert lines[0].startswith("The workers hold 21.0 MiB of results: worker 0 ")
    # `lazy` needs the results of `x`, and holds them too.
    assert [line.split() for line in lines[1:6]] == [
        ["variable", "results", "size"],
        ["x", "2", "16.0", "MiB"],
        ["lazy", "2", "16.0", "MiB"],
        ["y", "1", "4.0", "MiB"],
        ["results", "1", "1.0", "MiB"],
    ]
    assert lines[6] == "To release results, type: %gpudask held --release x,lazy"
    assert kernel.ok("held.total == sum(held.workers.values()) == 21 * 2**20").value == "True"

    assert "There is no variable nothing." in kernel.run("%gpudask held --release y,nothing").printed
    assert kernel.ok("bool(0 < y.min().compute() < 1)").value == "True", "none was deleted"
    assert "It belongs to %gpudask held." in kernel.run("%gpudask free --release y").printed
    kept = kernel.ok("%gpudask held --release y,x").value.splitlines()
    assert kept[0] == "Deleted: y, x."
    # The value of the cell above, of `wait`, has the futures of `y`.
    assert kept[1].startswith("The workers hold 21.0 MiB of results: ")
    assert [line.split()[:-2] for line in kept[3:6]] == [["lazy", "2"], ["(no", "variable)", "1"], ["results", "1"]]
    assert kept[-1].endswith("type: %reset -f out")
    released = kernel.ok("%reset -f out\nheld = %gpudask held --release results\nheld").value.splitlines()
    assert released[1].startswith("The workers hold 16.0 MiB of results: ")
    assert kernel.ok("'x' in globals(), bool(1 < lazy.min().compute() < 2)").value == "(False, True)"
    assert kernel.ok("%gpudask held --release lazy").value.splitlines()[1] == "The workers hold no results."
