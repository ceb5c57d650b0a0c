"""The live line of a `%%gpudask` cell in plain IPython in a real terminal, which shows it as it would be seen."""

import os
import re
import sys

import pexpect
import pytest
from helpers import fake_gpu_environment

pytestmark = pytest.mark.cluster

ROWS, COLUMNS = 200, 44  # the line of two GPUs is longer
COMMAND = ["-m", "IPython", "--colors=nocolor", "--simple-prompt", "--no-banner", "--no-confirm-exit"]


class Screen:
    """What a terminal shows of what was written to it: text, line feeds, returns, and clearing the rest of a line."""

    def __init__(self):
        self.lines, self.column, self.wrapped = [""], 0, 0

    def write(self, text):
        for part in re.findall(r"\x1b\[K|\x1b\[[\d;?]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", text):
            if part == "\x1b[K":
                self.lines[-1] = self.lines[-1][: self.column]
            elif part == "\r":
                self.column = 0
            elif part == "\n":
                self.lines.append("")
                self.column = 0
            elif not part.startswith("\x1b"):
                for letter in part:
                    if self.column == COLUMNS:
                        self.lines.append("")
                        self.column, self.wrapped = 0, self.wrapped + ("done" in self.lines[-2])
                    line = self.lines[-1].ljust(self.column)
                    self.lines[-1] = line[: self.column] + letter + line[self.column + 1 :]
                    self.column += 1


@pytest.fixture(scope="module")
def terminal():
    environment = fake_gpu_environment(cupy=True, FAKE_GPUS="2", TERM="xterm")
    terminal = pexpect.spawn(
        sys.executable, COMMAND, env=environment, encoding="utf-8", timeout=100, dimensions=(ROWS, COLUMNS), echo=False
    )
    terminal.expect(r"In \[1\]: ")
    for line in (
        "%load_ext jupyter_gpudask",
        "started = %gpudask start --gpus 2 --start-timeout 90",
        "import os, time; client = started.client",
    ):
        terminal.sendline(line)
        terminal.expect(r"In \[\d+\]: ")
    yield terminal
    terminal.close(force=True)


def run(terminal, lines, on_live=lambda: None):
    """What the terminal shows in the end, and what was written to it."""
    terminal.sendline(f"get_ipython().run_cell({lines!r});")
    written = ""
    if terminal.expect([r"tasks done", r"In \[\d+\]: $"]) == 0:
        written += terminal.before + terminal.after
        on_live()
        terminal.expect(r"In \[\d+\]: $")
    written += terminal.before
    screen = Screen()
    screen.write(written)
    return screen, written


def wait_for(file):
    """Code that computes two tasks, which end when there is the file."""
    task = f"lambda _: [time.sleep(0.02) for _ in iter(lambda: os.path.exists({str(file)!r}), True)]"
    return f"client.gather(client.map({task}, [1, 2], pure=False))"


def test_what_follows_the_live_line_is_not_glued_to_it_and_it_does_not_wrap(terminal, tmp_path):
    file = tmp_path / "go"
    cell = f"%%gpudask --dataframe pandas\n{wait_for(file)}\nprint('printed')\n{wait_for(file)}\n1 / 0"
    screen, written = run(terminal, cell, on_live=file.touch)
    assert re.search(r"0 of 2 tasks done · \d+ s · GPU 0 37 %", written)
    assert screen.wrapped == 0
    assert "printed" in screen.lines
    assert not [line for line in screen.lines if "done" in line]
    assert [line for line in screen.lines if line.startswith("-----")]
    footer = next(line for line in screen.lines if "CuPy and pandas on 2" in line)
    assert footer.startswith("CuPy and pandas on 2 × NVIDIA H200 · ")


def test_what_an_interrupt_took_back_is_not_called_done(terminal, tmp_path):
    cell = f"%%gpudask\n{wait_for(tmp_path / 'never')}"
    screen, written = run(terminal, cell, on_live=lambda: os.kill(terminal.pid, 2))
    assert "KeyboardInterrupt" in written
    assert "2 of 2" not in written
    assert [line for line in screen.lines if line.startswith("-----")]
    assert not [line for line in screen.lines if "done" in line]
