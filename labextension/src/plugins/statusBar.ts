import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { IStatusBar } from '@jupyterlab/statusbar';

import { LiveWidget } from '../components/liveWidget';
import { currentGpus, StatusItem } from '../notebook/statusItem';
import { IGpuDask } from '../tokens';

/** A plugin that adds an item to the status bar. */
export const statusBar: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-gpudask:status',
  description: 'The GPUs of the current notebook’s cluster in the status bar.',
  autoStart: true,
  requires: [IGpuDask],
  optional: [IStatusBar],
  activate: (
    app: JupyterFrontEnd,
    gpuDask: IGpuDask,
    statusBar: IStatusBar | null
  ): void => {
    statusBar?.registerStatusItem('jupyter-gpudask:status', {
      item: new LiveWidget(gpuDask, StatusItem),
      align: 'left',
      rank: 50,
      isActive: () =>
        gpuDask.model.settings.value.showStatusBar &&
        currentGpus(gpuDask).length > 0,
      activeStateChanged: gpuDask.model.changed
    });
  }
};
