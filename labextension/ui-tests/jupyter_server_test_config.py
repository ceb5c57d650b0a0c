"""The server that the browser tests use: JupyterLab and Notebook 7 side by side.

Never use this in production: it has no token.
"""

import atexit
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

from jupyterlab.galata import configure_jupyter_server

configure_jupyter_server(c)  # noqa: F821
c.ServerApp.port = int(os.environ.get("GPUDASK_TEST_PORT", "8888"))  # noqa: F821
c.ServerApp.allow_root = True  # noqa: F821
c.ServerApp.log_level = "ERROR"  # noqa: F821

# Kernels like the one of this environment, which lack something.
_TESTS = Path(__file__).parents[2] / "tests"
_KERNELS = {
    "without-package": {"PYTHONPATH": str(_TESTS / "without_package")},
    "without-gpu-packages": {"PYTHONPATH": str(_TESTS / "fake_gpus"), "FAKE_GPU_PACKAGES": ""},
}
_FOLDER = Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, _FOLDER, ignore_errors=True)
for _name, _environment in _KERNELS.items():
    _spec = {
        "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": _name,
        "language": "python",
        "env": _environment,
    }
    (_FOLDER / "kernels" / _name).mkdir(parents=True)
    (_FOLDER / "kernels" / _name / "kernel.json").write_text(json.dumps(_spec))
# What clusters of another server hold is no business of this one: the leases are in this folder.
os.environ["JUPYTER_RUNTIME_DIR"] = c.ServerApp.runtime_dir = str(_FOLDER / "runtime")  # noqa: F821
os.environ["JUPYTER_PATH"] = os.pathsep.join(filter(None, [str(_FOLDER), os.environ.get("JUPYTER_PATH")]))
