"""How long `%load_ext jupyter_gpudask` takes, each time in a fresh process.

python benchmarks/load_ext.py --out benchmarks/results/NAME.json
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
from pathlib import Path

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
        "command": " ".join(["python", "benchmarks/load_ext.py", *sys.argv[1:]]),
        "date": time.strftime("%Y-%m-%d"),
        "python": platform.python_version(),
        "gpu": None,
        "seconds": seconds,
        "median": sorted(seconds)[len(seconds) // 2],
    }
    text = json.dumps(report, indent=1)
    if arguments.out:
        arguments.out.write_text(text + "\n")
    print(text)
