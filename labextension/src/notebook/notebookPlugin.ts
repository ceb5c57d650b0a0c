/**
 * What is done in notebooks: code is inserted, and clusters are started with them.
 */
import { JupyterFrontEnd } from '@jupyterlab/application';
import { ISessionContext, Notification } from '@jupyterlab/apputils';
import {
  INotebookTracker,
  NotebookActions,
  NotebookPanel
} from '@jupyterlab/notebook';
import { addBelowIcon } from '@jupyterlab/ui-components';
import { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import { KERNEL_ARGS, NO_ARGS } from '../cluster/commands';
import { isOffered } from '../cluster/offered';
import { CommandIDs } from '../commandIDs';
import { errorMessage } from '../errors';
import { ResponseError } from '../model/rest';
import { CLIENT_CODE, EXAMPLE_CODE } from '../snippets';
import { IGpuDask } from '../tokens';
import { ENDED } from './acceleration';
import { findNotebook } from './currentKernel';

/** Errors without a notification: the kernel has a cluster already, or cannot have one. */
const IGNORED_ERRORS = ['ClusterExistsError', 'KernelUnsuitableError'];

/** JupyterLab's command, which in Notebook 7 opens a page. */
const OPEN = 'docmanager:open';

/** Starts clusters for the kernels of notebooks. */
export class Autostart {
  constructor(private readonly _gpuDask: IGpuDask) {}

  /** Start a cluster for the kernel of a notebook, and again when the kernel changes. */
  watch(session: ISessionContext): void {
    const start = (): void => void this._start(session);
    session.kernelChanged.connect(start);
    start();
  }

  private async _start(session: ISessionContext): Promise<void> {
    const { model, rest, trans } = this._gpuDask;
    await model.settings.ready;
    const kernelId = session.session?.kernel?.id;
    if (!model.settings.value.autostart || !kernelId) {
      return;
    }
    try {
      model.updateCluster(await rest.start(kernelId));
    } catch (error) {
      const kind = error instanceof ResponseError ? error.problem.kind : '';
      if (!IGNORED_ERRORS.includes(kind)) {
        Notification.warning(
          trans.__(
            'No cluster was started for %1: %2',
            session.name,
            errorMessage(error, trans)
          ),
          // Without this it is only listed behind the bell of the status bar.
          { autoClose: 10000 }
        );
      }
    }
  }
}

/** When the kernel of a notebook ends, say so in the lines of progress below its cells: nothing replaces them any more. */
export function endLinesOf({ sessionContext, content }: NotebookPanel): void {
  const end = (): void =>
    content.widgets.forEach(({ model: { sharedModel } }) => {
      if ('getOutputs' in sharedModel) {
        const outputs = JSON.stringify(sharedModel.getOutputs());
        const ended = withoutKernel(outputs);
        if (ended !== outputs) {
          sharedModel.setOutputs(JSON.parse(ended));
        }
      }
    });
  sessionContext.statusChanged.connect(
    (_, status) => ENDED.includes(status) && end()
  );
  sessionContext.kernelChanged.connect((_, { oldValue }) => oldValue && end());
}

/** Outputs as JSON in which each line of progress, as text or as HTML, says that it has ended. */
export function withoutKernel(outputs: string): string {
  return outputs.replace(
    /([">])(?!Ended )([^"<>]+ · last seen \d{4}-[^"<>]+ UTC)/g,
    (_, before: string, line: string) =>
      `${before}Ended without a result: ${line.replace(/ · about [^·]+ left/, '')}`
  );
}

/** Add the commands; code for the client is inserted into notebooks whose cluster is ready. */
export function addInsertCommands(
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

  commands.addCommand(CommandIDs.showCell, {
    label: trans.__('Show Cell'),
    describedBy: { args: { type: 'object' } },
    isVisible: () => false,
    execute: async ({ kernelId, path, cell }) => {
      const panel =
        findNotebook(shell, `${kernelId}`) ??
        (path && (await commands.execute(OPEN, { path })));
      shell.activateById(panel?.id ?? '');
      if (!(panel instanceof NotebookPanel)) {
        return;
      }
      await panel.revealed;
      const { content } = panel;
      const index = content.widgets.findIndex(({ model }) => model.id === cell);
      if (index >= 0) {
        content.activeCellIndex = index;
        await content.scrollToCell(content.widgets[index], 'center');
      }
    }
  });

  commands.addCommand(CommandIDs.tryExample, {
    label: trans.__('Try an Example on GPUs'),
    caption: trans.__(
      'Run every cell that uses Dask on the GPUs, and insert and run one'
    ),
    describedBy: { args: NO_ARGS },
    isVisible: () =>
      isOffered(CommandIDs.tryExample, false, model.settings.value),
    isEnabled: () => tracker.currentWidget !== null,
    execute: async () => {
      const panel = tracker.currentWidget;
      const isOn = model.clusters.get(current.kernelId ?? '')?.automatic;
      if (panel && (isOn || (await commands.execute(CommandIDs.runOnGpus)))) {
        insertCell(panel, EXAMPLE_CODE);
        await NotebookActions.run(panel.content, panel.sessionContext);
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
