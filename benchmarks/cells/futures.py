# %% setup
import dask
import dask.array as da
import numpy as np
from distributed import as_completed, default_client, wait

client = default_client()

# %% submit
client.submit(sum, [1, 2, 3]).result()

# %% map and gather
client.gather(client.map(lambda n: n**2, range(5)))

# %% futures as arguments
a = client.submit(pow, 2, 5)
client.submit(lambda n: n + 1, a).result()

# %% as they are completed
sorted(future.result() for future in as_completed(client.map(str, range(4))))

# %% scatter
numbers = client.scatter(np.arange(5.0))
client.submit(np.sum, numbers).result()

# %% persist and wait
x = da.ones((10, 10), chunks=5).persist()
wait(x)
float(x.sum().compute())

# %% compute in the background
future = client.compute(da.arange(10, chunks=5).sum())
int(future.result())

# %% an error of a task
try:
    client.submit(int, "a").result()
except ValueError as error:
    message = str(error)
message

# %% a tree of futures
level = client.map(lambda n: n + 1, range(8))
while len(level) > 1:
    level = [client.submit(lambda a, b: a + b, *pair) for pair in zip(level[::2], level[1::2])]
level[0].result()

# %% keyword arguments
client.submit(lambda a, *, scale: a * scale, 3, scale=2.5).result()

# %% an impure function
import random

_futures = [client.submit(random.Random(n).randint, 1, 6, pure=False) for n in range(3)]
len({future.key for future in _futures}), client.gather(_futures)

# %% map over two lists
client.gather(client.map(pow, [2, 3, 4], [1, 2, 3]))

# %% gather a dictionary
futures = {name: client.submit(len, name) for name in ["a", "bcd"]}
client.gather(futures)

# %% futures in a list are arguments
numbers = client.map(lambda n: n * n, range(5))
client.submit(sum, numbers).result()

# %% wait for some
done = wait(client.map(lambda n: n, range(3))).done
sorted(future.result() for future in done)

# %% status and exceptions
future = client.submit(lambda: 1 / 0)
wait([future])
future.status, type(future.exception()).__name__

# %% scatter a list
first, second = client.scatter([1, [2, 3]], hash=False)
client.submit(lambda a, b: a + sum(b), first, second).result()

# %% broadcast a table
(table,) = client.scatter([{"x": 10, "y": 20}], broadcast=True, hash=False)
client.gather(client.map(lambda key, table: table[key], ["x", "y", "x"], table=table))

# %% a future of an array
x = client.scatter(np.arange(6.0).reshape(2, 3))
client.submit(lambda a: (a @ a.T).tolist(), x).result()

# %% collections and futures
x = da.arange(10, chunks=5)
total, mean = client.compute([x.sum(), x.mean()])
int(total.result()), float(mean.result())

# %% an array of futures
blocks = client.map(np.full, [3, 3], [1.0, 2.0])
x = da.concatenate([da.from_delayed(dask.delayed(block), shape=(3,), dtype=float) for block in blocks])
x.sum().compute()

# %% as completed, with results
total = 0
for _future, result in as_completed(client.map(lambda n: n * 10, range(4)), with_results=True):
    total += result
total

# %% new work while it is completed
queue = as_completed(client.map(lambda n: n, [1, 2]))
_seen = []
for future in queue:
    _seen.append(future.result())
    if future.result() < 5:
        queue.add(client.submit(lambda n: n + 4, future.result()))
sorted(_seen)

# %% client.get of a graph
client.get({"x": 1, "y": (lambda n: n + 1, "x")}, "y")

# %% a callback
from threading import Event

_called = Event()
future = client.submit(sum, [1, 2])
future.add_done_callback(lambda _: _called.set())
_called.wait(60), future.result()

# %% a published dataset
x = da.ones(10, chunks=5).persist()
client.publish_dataset(cells=x)
total = float(client.get_dataset("cells").sum().compute())
client.unpublish_dataset("cells")
total

# %% tasks with names and priorities
first = client.submit(sum, [1, 2, 3], key="cells-sum", priority=10)
first.key, first.result()

# %% a queue between tasks
from distributed import Queue


def put(n, name):
    Queue(name).put(n * n)
    return n


queue = Queue("cells-queue")
client.gather(client.map(put, range(3), name="cells-queue"))
sorted(queue.get(timeout=60) for _ in range(3))

# %% a variable
from distributed import Variable

variable = Variable("cells-variable")
variable.set([1, "two"])
client.submit(lambda: Variable("cells-variable").get(timeout=60)).result()

# %% an actor
class Counter:
    def __init__(self):
        self.n = 0

    def increment(self):
        self.n += 1
        return self.n


counter = client.submit(Counter, actor=True).result()
[counter.increment().result() for _ in range(3)]

# %% tasks start tasks
from distributed import get_client, rejoin, secede


def fibonacci(n):
    if n < 2:
        return n
    tasks = [get_client().submit(fibonacci, n - k) for k in (1, 2)]
    secede()
    values = get_client().gather(tasks)
    rejoin()
    return sum(values)


client.submit(fibonacci, 5).result()

# %% a pool of concurrent.futures
with client.get_executor() as pool:
    results = list(pool.map(lambda n: n + 1, range(4)))
results

# %% a client of the notebook's own
from dask.distributed import Client

_own = Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None)
x = _own.persist(da.arange(20, chunks=5) * 2)
results = [int(x.sum().compute()), *map(int, _own.gather(_own.compute([x.min(), x.max()])))]
results += [_own.submit(sum, _own.scatter([1, 2])).result(), *_own.gather(_own.map(abs, [-1, -2]))]
_own.close()
results
