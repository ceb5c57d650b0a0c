import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { IRunningSessionManagers } from '@jupyterlab/running';

import { RunningClusters } from '../cluster/running';
import { RestClient } from '../model/rest';
import { IGpuDask } from '../tokens';

/** A plugin that lists the clusters in the panel of running terminals and kernels. */
export const running: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-gpudask:running',
  description:
    'Lists the clusters in the panel of running terminals and kernels.',
  autoStart: true,
  requires: [IGpuDask],
  optional: [IRunningSessionManagers],
  activate: (
    app: JupyterFrontEnd,
    gpuDask: IGpuDask,
    managers: IRunningSessionManagers | null
  ): void => {
    const rest = new RestClient(app.serviceManager.serverSettings);
    managers?.add(new RunningClusters(gpuDask, rest));
  }
};
