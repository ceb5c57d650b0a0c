"""The address of the dashboard that a kernel reports when it has joined a cluster."""

import dask.config
import pytest

from jupyter_gpudask.session.joined_cluster import _dashboard
from jupyter_gpudask.session.joined_target import parse_target

TARGET = parse_target("tcp://10.0.0.1:8786")


def test_it_is_at_the_host_of_the_scheduler():
    assert _dashboard(TARGET, 8787) == "http://10.0.0.1:8787/status"
    assert _dashboard(parse_target("tcp://[::1]:8786"), 8787) == "http://[::1]:8787/status"


def test_it_has_tls_where_dask_is_configured_so():
    with dask.config.set({"distributed.scheduler.dashboard.tls.cert": "cert.pem"}):
        assert _dashboard(TARGET, 8787) == "https://10.0.0.1:8787/status"


@pytest.mark.parametrize("port", [None, "8787", "8787@evil.example", {}])
def test_what_is_no_port_is_no_dashboard(port):
    assert _dashboard(TARGET, port) == ""
