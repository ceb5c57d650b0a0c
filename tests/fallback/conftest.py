"""Makes `device`, which gives CuPy or its stand-in, importable from tests/switch."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "switch"))
