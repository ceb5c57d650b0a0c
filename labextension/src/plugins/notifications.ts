import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { INotebookTracker } from '@jupyterlab/notebook';

import { CellNotices } from '../notifications/cellNotices';
import { loadNotifier } from '../notifications/loadNotifier';
import { PANEL_ID } from '../panel/panel';
import { IGpuDask } from '../tokens';

/** A plugin that shows notifications for the events of clusters. */
export const notifications: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-gpudask:notifications',
  description:
    'Notifications for clusters that fail, workers that are lost, and long cells.',
  autoStart: true,
  requires: [IGpuDask],
  optional: [INotebookTracker],
  activate: (
    app: JupyterFrontEnd,
    gpuDask: IGpuDask,
    tracker: INotebookTracker | null
  ): void => {
    const isPanelVisible = (): boolean =>
      Array.from(app.shell.widgets('left')).some(
        widget => widget.id === PANEL_ID && widget.isVisible
      );
    loadNotifier(gpuDask, isPanelVisible);
    if (tracker) {
      new CellNotices(gpuDask, tracker, app.shell);
    }
  }
};
