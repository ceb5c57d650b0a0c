import {
  ILabShell,
  ILayoutRestorer,
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette, WidgetTracker } from '@jupyterlab/apputils';
import { historyIcon } from '@jupyterlab/ui-components';

import { CommandIDs } from '../commandIDs';
import type { HistoryTab } from '../history/tab';
import { RestClient } from '../model/rest';
import { IGpuDask } from '../tokens';

/** A plugin that adds the tab with the metrics of the last minutes. */
export const history: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-gpudask:history',
  description:
    'A tab with the metrics of the last minutes of every GPU and worker.',
  autoStart: true,
  requires: [IGpuDask],
  optional: [ILabShell, ILayoutRestorer, ICommandPalette],
  activate: (
    app: JupyterFrontEnd,
    gpuDask: IGpuDask,
    labShell: ILabShell | null,
    restorer: ILayoutRestorer | null,
    palette: ICommandPalette | null
  ): void => {
    const { trans } = gpuDask;
    const tracker = new WidgetTracker<HistoryTab>({
      namespace: 'jupyter-gpudask-history'
    });
    // Notebook 7 shows one document in a page; the down area is below it.
    const area = labShell ? 'main' : 'down';

    app.commands.addCommand(CommandIDs.showHistory, {
      label: trans.__('Show GPU History'),
      caption: trans.__(
        'Show the metrics of the last minutes of every GPU and worker'
      ),
      icon: historyIcon,
      describedBy: {
        args: { type: 'object', properties: {}, additionalProperties: false }
      },
      execute: async () => {
        const { HistoryTab } = await import('../history/tab');
        const rest = new RestClient(app.serviceManager.serverSettings);
        if (!tracker.currentWidget) {
          const tab = new HistoryTab(gpuDask, rest);
          app.shell.add(tab, area, { type: 'GPU History' });
          await tracker.add(tab);
        }
        app.shell.activateById(tracker.currentWidget?.id ?? '');
      }
    });
    palette?.addItem({
      command: CommandIDs.showHistory,
      category: trans.__('GPU Dask')
    });
    if (labShell) {
      void restorer?.restore(tracker, {
        command: CommandIDs.showHistory,
        name: tab => tab.id
      });
    }
  }
};
