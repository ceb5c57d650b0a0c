/**
 * The command that inserts the code for the Dask client into a notebook.
 */
import { JupyterFrontEnd } from '@jupyterlab/application';
import {
  INotebookTracker,
  NotebookActions,
  NotebookPanel
} from '@jupyterlab/notebook';
import { addBelowIcon } from '@jupyterlab/ui-components';
import { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import { KERNEL_ARGS } from '../cluster/commands';
import { CommandIDs } from '../commandIDs';
import { CLIENT_CODE } from '../snippets';
import { IGpuDask } from '../tokens';

/** Add the command; it is enabled for notebooks whose cluster is ready. */
export function addInsertCommand(
  { model, current, commands, trans }: IGpuDask,
  tracker: INotebookTracker,
  shell: JupyterFrontEnd.IShell
): void {
  const find = (args: ReadonlyPartialJSONObject): NotebookPanel | undefined => {
    const id = args.kernelId ?? current.kernelId;
    if (model.clusters.get(String(id))?.status !== 'ready') {
      return undefined;
    }
    const hasKernel = (panel: NotebookPanel): boolean =>
      panel.sessionContext.session?.kernel?.id === id;
    const { currentWidget } = tracker;
    return currentWidget && hasKernel(currentWidget)
      ? currentWidget
      : tracker.find(hasKernel);
  };

  commands.addCommand(CommandIDs.insertCode, {
    label: trans.__('Insert Dask Client Code'),
    caption: trans.__(
      'Insert code that gets the Dask client in a new cell below the active cell'
    ),
    icon: addBelowIcon,
    describedBy: { args: KERNEL_ARGS },
    isEnabled: args => find(args) !== undefined,
    execute: args => {
      const panel = find(args);
      if (panel) {
        shell.activateById(panel.id);
        insertCell(panel, CLIENT_CODE);
      }
    }
  });

  // After a reload the clusters are known before the notebooks are opened.
  const refresh = (): void =>
    commands.notifyCommandChanged(CommandIDs.insertCode);
  const watch = (panel: NotebookPanel): void => {
    panel.sessionContext.kernelChanged.connect(refresh);
    panel.disposed.connect(refresh);
  };
  tracker.forEach(watch);
  tracker.widgetAdded.connect((_, panel) => {
    watch(panel);
    refresh();
  });
}

/** Insert code in a new cell below the active cell, and make it the active cell. */
function insertCell({ content }: NotebookPanel, code: string): void {
  NotebookActions.insertBelow(content);
  content.activeCell?.model.sharedModel.setSource(code);
}
