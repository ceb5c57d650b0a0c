"""`.ci/each`, with which `make test` runs its parts."""

import subprocess
from pathlib import Path

EACH = Path(__file__).parents[1] / ".ci" / "each"


def each(*arguments):
    done = subprocess.run([EACH, *arguments], capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout.splitlines()


def test_all_parts_run_and_what_failed_is_listed_at_the_end():
    pytest, jest = "echo FAILED test_a.py::test_b; exit 3", "echo '  ● suite > test'; false"
    status, lines = each(pytest, "echo fine", jest)
    assert status == 1
    shown, listed = lines[: lines.index("Failed:")], lines[lines.index("Failed:") + 1 :]
    assert shown[:3] == ["FAILED test_a.py::test_b", "fine", "  ● suite > test"]
    assert listed[:2] == [f"  {pytest} (exit code 3)", f"  {jest} (exit code 1)"]
    assert {"FAILED test_a.py::test_b", "  ● suite > test"} <= set(listed[2:])


def test_what_runs_after_the_limit_is_ended_and_listed():
    status, lines = each("--limit", "1", "sleep 100", "echo late")
    assert status == 1
    assert "  sleep 100 (exit code 124)" in lines
    assert "late" in lines
