"""What of the GPU stack is there, of which version, and whether it computes."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

LIBRARIES = ("dask", "distributed", "numpy", "pandas", "cupy", "cudf", "dask_cudf", "rmm", "dask_cuda")

_TRY = {
    "cupy": "import cupy; assert int(cupy.arange(10).sum()) == 45; print(cupy.__version__)",
    "cudf": "import cudf; assert int(cudf.Series([1, 2]).sum()) == 3; print(cudf.__version__)",
    "rmm": "import rmm; rmm.DeviceBuffer(size=1024); print(rmm.__version__)",
    "dask_cudf": "import dask_cudf; print(dask_cudf.__version__)",
    "dask_cuda": "import dask_cuda; print(dask_cuda.__version__)",
}


def loaded_versions(**_: Any) -> dict[str, str]:
    """Versions of those of the libraries that this process has loaded, by name; Python's own too."""
    loaded = {name: getattr(sys.modules.get(name), "__version__", None) for name in LIBRARIES}
    return {"python": sys.version.split()[0]} | {name: str(version) for name, version in loaded.items() if version}


def try_library(name: str, limit: float = 120.0) -> tuple[bool, str]:
    """Compute something with a library of the GPU stack, in a process of its own, which leaves no CUDA context.

    Parameters
    ----------
    name
        Of the module.
    limit
        Seconds.

    Returns
    -------
    (bool, str)
        Whether it worked, and its version or the last line of the error.
    """
    try:
        done = subprocess.run(  # noqa: S603 - our own words
            [sys.executable, "-c", _TRY[name]], capture_output=True, text=True, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired:
        return False, f"no answer for {limit:.0f} s"
    lines = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    return done.returncode == 0, lines[-1] if lines else f"ended with status {done.returncode}"
