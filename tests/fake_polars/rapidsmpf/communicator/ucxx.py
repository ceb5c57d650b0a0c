import os
import socket


class Communicator:
    """Listens on all interfaces, as the real one."""

    ctx = None  # of the real one's context, of which it is a part

    def __init__(self):
        self.listener = socket.create_server(("", 0))
        self.transports = os.environ.get("UCX_TLS")


def new_communicator(nranks, ucx_worker, root_ucxx_address, options, progress_thread):  # noqa: ARG001 - as the real one
    return Communicator()


def get_root_ucxx_address(communicator):
    return communicator.listener.getsockname()[1].to_bytes(2)


def barrier(communicator):
    assert communicator.listener is not None
