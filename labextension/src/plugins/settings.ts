import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ISettingRegistry } from '@jupyterlab/settingregistry';

import { IGpuDask } from '../tokens';

/** A plugin that loads the settings. */
export const settings: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-gpudask:settings',
  description: 'The settings of GPU Dask.',
  autoStart: true,
  requires: [IGpuDask],
  optional: [ISettingRegistry],
  activate: async (
    app: JupyterFrontEnd,
    gpuDask: IGpuDask,
    registry: ISettingRegistry | null
  ): Promise<void> => {
    if (registry) {
      gpuDask.model.settings.follow(await registry.load(settings.id));
    }
  }
};
