/**
 * Code that the panel shows, copies or inserts; never translated.
 */

import { SpecRequest } from './model/api';

/** Gets the Dask client of the notebook's cluster. */
export const CLIENT_CODE = `%load_ext jupyter_gpudask
cluster = %gpudask start
client = cluster.client`;

/** Connects a notebook to a shared cluster. */
export const connectCode = (id: string): string =>
  `%load_ext jupyter_gpudask\n%gpudask connect ${id}`;

export const DISCONNECT_CODE = '%gpudask disconnect';

/** Gets the Dask client of a shared cluster. */
export const sharedClientCode = (
  id: string
): string => `%load_ext jupyter_gpudask
cluster = %gpudask connect ${id}
client = cluster.client`;

/** Starts a cluster from a notebook. */
export const START_CODE = '%load_ext jupyter_gpudask\n%gpudask start';

/** Lists the GPUs of the machine in a notebook. */
export const LIST_GPUS_CODE = '%load_ext jupyter_gpudask\n%gpudask gpus';

/** Enables the server extension. */
export const ENABLE_COMMAND = 'jupyter server extension enable jupyter_gpudask';

/** Runs pandas and scikit-learn on a GPU. */
export const ACCELERATE_CODE = '%load_ext jupyter_gpudask\n%gpudask accelerate';

/** Switches the GPUs on for every cell that uses Dask; the cluster is started, so that the panel shows it. */
export const onCode = ({
  gpus
}: SpecRequest): string => `%load_ext jupyter_gpudask
%gpudask start${gpus ? ` --gpus ${gpus}` : ''}
%gpudask on`;

export const OFF_CODE = '%gpudask off';

/** A computation that takes about a second on a GPU. */
export const EXAMPLE_CODE = `import dask.array as da

x = da.random.random((10_000, 10_000), chunks=(1_000, 1_000))
(x + x.T).mean().compute()`;
