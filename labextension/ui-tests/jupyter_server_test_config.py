"""The server that the browser tests use: JupyterLab and Notebook 7 side by side.

Never use this in production: it has no token.
"""

import os

from jupyterlab.galata import configure_jupyter_server

configure_jupyter_server(c)  # noqa: F821
c.ServerApp.port = int(os.environ.get("GPUDASK_TEST_PORT", "8888"))  # noqa: F821
c.ServerApp.allow_root = True  # noqa: F821
