import { Token } from '@lumino/coreutils';

import { IGpuDask } from './components/context';

/** What the plugins of this extension share. */
export const IGpuDaskToken = new Token<IGpuDask>(
  'jupyter-gpudask:IGpuDask',
  'The state of the GPUs and of the Dask clusters on them.'
);
