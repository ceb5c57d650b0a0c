import { TranslationBundle } from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';
import { Token } from '@lumino/coreutils';

import { GpuDaskModel } from './model/model';
import { RestClient } from './model/rest';
import { CurrentKernel } from './notebook/currentKernel';

/** The service that the plugins and views of this extension share. */
export interface IGpuDask {
  /** The state of the GPUs and clusters. */
  model: GpuDaskModel;
  /** The client of the server. */
  rest: RestClient;
  /** The kernel of the current notebook or console. */
  current: CurrentKernel;
  /** The application's commands; every action of a view is a command. */
  commands: CommandRegistry;
  /** The translations of this extension. */
  trans: TranslationBundle;
  /** The code of JupyterLab's display language, such as "de-DE"; see `timesIn`. */
  language: string;
}

/** The token of the service. */
export const IGpuDask = new Token<IGpuDask>(
  'jupyter-gpudask:IGpuDask',
  'The state of the GPUs and of the Dask clusters on them.'
);
