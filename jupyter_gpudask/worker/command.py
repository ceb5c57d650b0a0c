"""``python -m jupyter_gpudask worker``: workers on this machine for a scheduler on any machine."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import BackendUnavailableError, GpuDaskError
from ..installation import pip_install
from ..protocol.state import read_credentials

_PROGRAM = "python -m jupyter_gpudask worker"
_ROLES = ("worker", "client")  # of a worker that is also a client of tasks
_PRELOAD = ("--preload", "jupyter_gpudask.worker.preload")
# The HTTP servers of workers have neither TLS nor access control.
_NO_DASHBOARD = ("--no-dashboard", "--dashboard-address", "127.0.0.1:0")
# Any of these says where workers listen.
_LISTENING = ("host", "interface", "listen_address", "contact_address")
# As the workers of a local cluster: one allocator for CuPy and cuDF, and one task with the resource GPU at a time.
_GPU_OPTIONS = ("--pre-import", "cupy,cudf,dask_cudf", "--set-rmm-allocator-for-libs", "cupy")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run workers until they are interrupted or terminated."""
    parser = argparse.ArgumentParser(prog=_PROGRAM.removesuffix(" worker"), allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)
    worker = commands.add_parser(
        "worker",
        help="start a worker for each GPU of this machine",
        usage=f"{_PROGRAM} (ADDRESS | --scheduler-file FILE) [--security FILE] [--cpu] [OPTIONS]",
        epilog="ADDRESS is that of the scheduler, such as tls://10.0.0.1:8786; FILE of --scheduler-file is what dask "
        "scheduler has written. OPTIONS are those of dask cuda worker, with --cpu those of dask worker.",
        allow_abbrev=False,
    )
    worker.add_argument(
        "--security",
        metavar="FILE",
        help="a file with the TLS credentials ca, certificate and key; - for the first line of standard input, with "
        "whose end the workers end",
    )
    worker.add_argument("--cpu", action="store_true", help="a worker without a GPU")
    given, others = parser.parse_known_args(arguments)
    try:
        command = _dask_worker() if given.cpu else _dask_cuda_worker()
        if "DASK_GATEWAY_CLUSTER_NAME" in os.environ and not given.cpu:
            _use_one_gpu()
        options = [*worker_options(gpu=not given.cpu), *others]
        # Only the command knows which options have values.
        parameters = command.make_context(_PROGRAM, list(options), resilient_parsing=True).params
        if (parameters["scheduler"] is None) == (parameters["scheduler_file"] is None):
            worker.error("Give an address or --scheduler-file.")
        if given.security:
            _configure_tls(given.security)
            if given.security == "-":
                threading.Thread(target=_end_with_standard_input, daemon=True).start()
    except GpuDaskError as error:
        parser.exit(1, f"{error}\n")
    if given.cpu:
        _hide_gpus()
    if not parameters["dashboard"]:
        _serve_no_pages()
    command([*_host_options(parameters), *options], prog_name=_PROGRAM)


def _hide_gpus() -> None:
    """Let this process and its workers see no GPU, also where the machine has some."""
    import dask.config

    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    dask.config.set({"distributed.diagnostics.nvml": False})  # Dask's metrics would be those of the first GPU


def _use_one_gpu() -> None:
    """Let this process see one of the GPUs that it sees, the one with most free memory.

    dask-gateway knows a worker by its name, and closes those that it has not asked for; ``dask cuda worker`` gives each
    of several workers another name.
    """
    from ..machine.gpus import require_gpus, select_gpus

    [gpu] = select_gpus(1, require_gpus())
    os.environ["CUDA_VISIBLE_DEVICES"] = gpu.uuid


def _serve_no_pages() -> None:
    import dask.config

    dask.config.set({"distributed.worker.http.routes": []})


def _host_options(parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """The option with which workers listen only at the address from which this machine reaches the scheduler.

    Dask's default is all interfaces. With that of a scheduler on loopback, other machines reach no worker.
    """
    from distributed.comm.addressing import get_address_host_port, parse_address
    from distributed.utils import json_load_robust

    if any(parameters.get(name) for name in _LISTENING):
        return ()
    address = parameters["scheduler"] or json_load_robust(parameters["scheduler_file"])["address"]
    if parse_address(address)[0] not in ("tcp", "tls"):
        return ()
    try:
        family, kind, _, _, to = socket.getaddrinfo(*get_address_host_port(address), type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:  # which sends nothing
            probe.connect(to)
            return ("--host", probe.getsockname()[0])
    except (OSError, ValueError):  # Dask reports what is wrong with the address, or waits until its name is known
        return ()


def _end_with_standard_input() -> None:
    while os.read(0, 2**16):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def worker_options(*, gpu: bool) -> tuple[str, ...]:
    """The options of ``dask cuda worker``, or of ``dask worker``, that make its workers those of this package."""
    return (*_PRELOAD, *_NO_DASHBOARD, "--resources", "GPU=1", *(_GPU_OPTIONS if gpu else ()))


def _dask_worker() -> Any:
    from distributed.cli.dask_worker import main

    return main


def _dask_cuda_worker() -> Any:
    try:
        from dask_cuda.cli import worker
    except ImportError as error:
        raise BackendUnavailableError("no-dask-cuda", error=error, install=pip_install("cu13")) from None
    return worker


def _configure_tls(file: str) -> None:
    """Set the credentials in Dask's configuration, which nannies pass on to their workers through a pipe."""
    import dask.config

    credentials = read_credentials(file)
    dask.config.set(
        {
            "distributed.comm.tls.ca-file": credentials.ca,
            "distributed.comm.require-encryption": True,
            **{f"distributed.comm.tls.{role}.cert": credentials.certificate for role in _ROLES},
            **{f"distributed.comm.tls.{role}.key": credentials.key for role in _ROLES},
        }
    )
