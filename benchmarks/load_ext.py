"""How long `%load_ext jupyter_gpudask` takes, each time in a fresh process.

python benchmarks/load_ext.py --out benchmarks/results/NAME.json
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from report import header, publish

SCRIPT = """
import time
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
began = time.perf_counter()
shell.run_line_magic("load_ext", "jupyter_gpudask")
print(time.perf_counter() - began)
"""

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    command = [sys.executable, "-P", "-c", SCRIPT]
    seconds = [round(float(subprocess.check_output(command, text=True)), 4) for _ in range(10)]
    report = {
        **header(),
        "seconds": seconds,
        "median": sorted(seconds)[len(seconds) // 2],
    }
    publish(report, arguments.out)
