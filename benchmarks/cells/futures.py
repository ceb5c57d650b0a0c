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
