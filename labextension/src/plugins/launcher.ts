import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ILauncher } from '@jupyterlab/launcher';

import { CommandIDs } from '../commandIDs';
import { IGpuDask } from '../tokens';

/** A plugin that adds a card to the launcher. */
export const launcher: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-gpudask:launcher',
  description: 'Opens the panel from the launcher.',
  autoStart: true,
  requires: [IGpuDask],
  optional: [ILauncher],
  activate: (
    app: JupyterFrontEnd,
    gpuDask: IGpuDask,
    launcher: ILauncher | null
  ): void => {
    launcher?.add({
      command: CommandIDs.showPanel,
      args: { isLauncher: true },
      category: gpuDask.trans.__('Other'),
      rank: 10
    });
  }
};
