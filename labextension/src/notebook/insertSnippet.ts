/**
 * The command that puts the lines which get the client into a notebook.
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
import { CLIENT_LINES } from '../snippets';
import { IGpuDask } from '../tokens';

/** Add the command; it is for notebooks whose cluster is ready. */
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
    const isMeant = (panel: NotebookPanel): boolean =>
      panel.sessionContext.session?.kernel?.id === id;
    const front = tracker.currentWidget;
    return front && isMeant(front) ? front : tracker.find(isMeant);
  };

  commands.addCommand(CommandIDs.insertCode, {
    label: trans.__('Insert Code That Gets the Dask Client'),
    caption: trans.__('Put it into a new cell below the active one'),
    icon: addBelowIcon,
    describedBy: { args: KERNEL_ARGS },
    isEnabled: args => find(args) !== undefined,
    execute: args => {
      const panel = find(args);
      if (panel) {
        shell.activateById(panel.id);
        insertCell(panel, CLIENT_LINES);
      }
    }
  });

  // After a reload the clusters are known before the notebooks are there.
  const refresh = (): void =>
    commands.notifyCommandChanged(CommandIDs.insertCode);
  const follow = (panel: NotebookPanel): void => {
    panel.sessionContext.kernelChanged.connect(refresh);
    panel.disposed.connect(refresh);
  };
  tracker.forEach(follow);
  tracker.widgetAdded.connect((_, panel) => {
    follow(panel);
    refresh();
  });
}

/** Put code into a new cell below the active one, which is then the active one. */
function insertCell({ content }: NotebookPanel, code: string): void {
  NotebookActions.insertBelow(content);
  content.activeCell?.model.sharedModel.setSource(code);
}
