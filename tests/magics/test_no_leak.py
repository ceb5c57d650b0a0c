"""Nothing but the cell itself, and what it starts while it runs, sees its switch: on a real kernel."""

import pytest
from helpers import wait_until

pytestmark = pytest.mark.cluster

BACKENDS = '(dask.config.get("array.backend"), dask.config.get("dataframe.backend"))'
OFF = "('numpy', 'pandas')"
ON = "('cupy', 'cudf')"


@pytest.fixture(autouse=True)
def the_switch_is_off_after_every_test(gpu_kernel):
    gpu_kernel.ok(f"import asyncio, threading, time\ndef seen(): return {BACKENDS}")
    yield
    assert gpu_kernel.ok("seen()").value == OFF


def subshell(kernel):
    """Start one, and give a function that sends code to it without waiting."""
    client = kernel.client
    client.control_channel.send(client.session.msg("create_subshell_request"))
    identity = client.get_control_msg(timeout=30)["content"]["subshell_id"]

    def send(code):
        request = client.session.msg("execute_request", {"code": code, "silent": True})
        request["header"]["subshell_id"] = identity
        client.shell_channel.send(request)

    return send


def test_a_task_that_outlives_the_cell(gpu_kernel):
    gpu_kernel.ok(
        "%%gpudask\nviews = []\ngo = asyncio.Event()\n"
        "async def work():\n    views.append(seen())\n    await go.wait()\n    views.append(seen())\n"
        "task = asyncio.create_task(work())\nawait asyncio.sleep(0.1)"
    )
    assert gpu_kernel.ok("go.set()\nawait task\nviews").value == f"[{ON}, {OFF}]"


def test_two_cells_in_flight_each_have_their_own(gpu_kernel):
    send = subshell(gpu_kernel)
    gpu_kernel.ok("import time\nothers = []")
    send("time.sleep(0.3)\nothers.append(seen())\ntime.sleep(1)\nothers.append(seen())")
    cell = "%%gpudask --array numpy\nothers.append(seen())\ntime.sleep(1)\nothers.append(seen())"
    send(f"get_ipython().run_cell({cell!r})")
    cell = "%%gpudask\nfirst = seen()\ntime.sleep(2)\nfirst, seen()"
    assert gpu_kernel.ok(cell).value == f"({ON}, {ON})"
    wait_until(lambda: gpu_kernel.ok("len(others)").value == "4")
    mixed = "('numpy', 'cudf')"
    assert gpu_kernel.ok("print(others)").printed.strip() == f"[{OFF}, {OFF}, {mixed}, {mixed}]"


def test_a_callback_of_a_widget_that_the_cell_made(gpu_kernel):
    gpu_kernel.ok(
        "%%gpudask\nimport ipywidgets\nviews = []\nbutton = ipywidgets.Button()\n"
        "button.on_click(lambda _: views.append(seen()))\nbutton.click()"
    )
    client, identity = gpu_kernel.client, gpu_kernel.ok("print(button.model_id)").printed.strip()
    click = {"comm_id": identity, "data": {"method": "custom", "content": {"event": "click"}}}
    client.shell_channel.send(client.session.msg("comm_msg", click))
    assert gpu_kernel.ok("views").value == f"[{ON}, {OFF}]"


def test_the_workers_never_carry_it(gpu_kernel):
    cell = (
        "%%gpudask\nimport dask\n"
        "def on_worker(*_):\n    import dask.config\n    return dask.config.get('array.backend', 'numpy')\n"
        "{*client.run(on_worker).values(), client.submit(on_worker, pure=False).result(), "
        "dask.delayed(on_worker)().compute(), *client.gather(client.map(on_worker, range(3), pure=False))}"
    )
    assert gpu_kernel.ok(cell).value == "{'numpy'}"
    assert gpu_kernel.ok(cell.replace("%%gpudask\n", "")).value == "{'numpy'}"


@pytest.mark.parametrize("inside", ["%gpudask start", "%gpudask restart"])
def test_starting_a_cluster_inside_the_cell(gpu_kernel, inside):
    reply = gpu_kernel.ok(
        f"%%gpudask\nfirst = seen()\nagain = {inside}\nfirst, seen(), again.client.submit(abs, -7).result()"
    )
    assert reply.value == f"({ON}, {ON}, 7)"
    assert " · 1 task · " in reply.displayed[-1]
    gpu_kernel.ok("client = again.client")
    assert gpu_kernel.ok("client.submit(abs, -8).result()").value == "8"
