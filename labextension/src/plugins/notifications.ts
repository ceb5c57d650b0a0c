import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';

import { Notifier } from '../notifications/notifier';
import { PANEL_ID } from '../panel/panel';
import { IGpuDask } from '../tokens';

/** A plugin that shows notifications for the events of clusters. */
export const notifications: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-gpudask:notifications',
  description:
    'Notifications for clusters that fail and workers that are lost.',
  autoStart: true,
  requires: [IGpuDask],
  activate: (app: JupyterFrontEnd, gpuDask: IGpuDask): void => {
    const isPanelVisible = (): boolean =>
      Array.from(app.shell.widgets('left')).some(
        widget => widget.id === PANEL_ID && widget.isVisible
      );
    new Notifier(gpuDask, isPanelVisible);
  }
};
