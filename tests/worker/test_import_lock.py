"""Threads of a worker that unpickle tasks at the same time, in a process that has imported nothing of Dask's yet."""

IMPORTING = """
import os, sys, threading
from jupyter_gpudask.worker.task_pickler import import_named_collections
named = ["dask.array.core", "dask.array", "dask.dataframe.core", "dask.bag.core", "dask.array.random", "dask.dataframe"]
together, errors = threading.Barrier(len(named)), []
def unpickle(name):
    together.wait()
    try:
        import_named_collections(name.encode())
        __import__(name)
    except BaseException as error:
        errors.append(repr(error))
threads = [threading.Thread(target=unpickle, args=[name], daemon=True) for name in named]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(30)
print(errors, [thread.is_alive() for thread in threads].count(True), flush=True)
os._exit(0)
"""


def test_each_part_of_dask_is_imported_by_one_thread(run_python):
    assert run_python(IMPORTING).strip() == "[] 0"
