"""Interrupts of tasks in a worker's threads."""

import sys
import threading
from importlib import import_module

from helpers import wait_until

from jupyter_gpudask.worker.interruption import TaskInterruptedError, TaskRun


def test_a_module_that_a_task_imports_is_set_up_before_the_interrupt(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "slowly_set_up.py").write_text("import time\nfor _ in range(20): time.sleep(0.02)\nis_set_up = True")
    runs, interrupted = [], []

    def compute():
        runs.append(TaskRun("x"))
        try:
            import_module("slowly_set_up")

            while True:
                pass
        except TaskInterruptedError:
            interrupted.append(sys.modules.pop("slowly_set_up").is_set_up)

    thread = threading.Thread(target=compute)
    thread.start()
    wait_until(lambda: "slowly_set_up" in sys.modules)
    wait_until(lambda: runs[0].interrupt() or interrupted)
    thread.join()
    assert interrupted == [True]
