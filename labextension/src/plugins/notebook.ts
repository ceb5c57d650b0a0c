import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { INotebookTracker } from '@jupyterlab/notebook';

import { CommandIDs } from '../commandIDs';
import { RestClient } from '../model/rest';
import { Autostart } from '../notebook/autostart';
import { addInsertCommand } from '../notebook/insertSnippet';
import { IGpuDask } from '../tokens';

/** A plugin that inserts code into notebooks and starts clusters with them. */
export const notebook: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-gpudask:notebook',
  description: 'Inserts code into notebooks and starts clusters with them.',
  autoStart: true,
  requires: [IGpuDask],
  optional: [INotebookTracker, ICommandPalette],
  activate: (
    app: JupyterFrontEnd,
    gpuDask: IGpuDask,
    tracker: INotebookTracker | null,
    palette: ICommandPalette | null
  ): void => {
    if (!tracker) {
      return;
    }
    addInsertCommand(gpuDask, tracker, app.shell);
    palette?.addItem({
      command: CommandIDs.insertCode,
      category: gpuDask.trans.__('GPU Dask')
    });
    const rest = new RestClient(app.serviceManager.serverSettings);
    const autostart = new Autostart(gpuDask, rest);
    tracker.forEach(panel => autostart.watch(panel.sessionContext));
    tracker.widgetAdded.connect((_, panel) =>
      autostart.watch(panel.sessionContext)
    );
  }
};
