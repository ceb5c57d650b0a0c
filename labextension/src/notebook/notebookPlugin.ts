/**
 * What is done in notebooks: code is inserted, and clusters are started with them.
 */
import { JupyterFrontEnd } from '@jupyterlab/application';
import { ISessionContext } from '@jupyterlab/apputils';
import { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { addBelowIcon } from '@jupyterlab/ui-components';
import { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import { KERNEL_ARGS, NO_ARGS } from '../cluster/commands';
import { isOffered } from '../cluster/offered';
import { CommandIDs } from '../commandIDs';
import { IGpuDask } from '../tokens';
import { ENDED } from './acceleration';

/** Start a cluster for the kernel of a notebook, and again when the kernel changes, if the user has chosen so. */
export function startClusterOf(
  session: ISessionContext,
  gpuDask: IGpuDask
): void {
  const { settings } = gpuDask.model;
  const start = async (): Promise<void> => {
    await settings.ready;
    const kernelId = session.session?.kernel?.id;
    if (settings.value.autostart && kernelId) {
      const { startCluster } = await import('./actions');
      await startCluster(kernelId, session.name, gpuDask);
    }
  };
  session.kernelChanged.connect(() => void start());
  void start();
}

/** When the kernel of a notebook ends, say so in the lines of progress below its cells: nothing replaces them any more. */
export function endLinesOf({ sessionContext, content }: NotebookPanel): void {
  const end = async (): Promise<void> =>
    (await import('./actions')).endLines(content);
  sessionContext.statusChanged.connect(
    (_, status) => void (ENDED.includes(status) && end())
  );
  sessionContext.kernelChanged.connect(
    (_, { oldValue }) => void (oldValue && end())
  );
}

/** The entry of the browser tab with the clusters for which refused cells wait, while the page is loaded again. */
const KEY = 'jupyter-gpudask:refused';

/** Run the cell that was refused its GPUs again, once the cluster is ready that was started in its place here. */
export function runRefusedCells(
  { model, current, commands, trans }: IGpuDask,
  tracker: INotebookTracker
): void {
  /** Why their kernels had no cluster before. */
  const started = new Map<string, string>();
  const statusOf = (kernelId: string): string | undefined =>
    model.clusters.get(kernelId)?.status;
  commands.commandExecuted.connect((_, { args, result }) => {
    const kernelId = String(args.kernelId ?? current.kernelId);
    const { reserved_gpus: gpus = [], reason = '' } =
      model.clusters.get(kernelId) ?? {};
    if (gpus.length > 0) {
      const add = (): void => {
        if (statusOf(kernelId) === 'starting') {
          started.set(kernelId, reason);
        }
      };
      result.then(add, () => undefined);
    }
  });
  const run = (): void => {
    for (const [kernelId, reason] of started) {
      const status = statusOf(kernelId);
      // Without a message of the server yet, no cluster is known.
      if (status !== 'starting' && model.gpus) {
        started.delete(kernelId);
        const panel = findPanel(tracker, kernelId);
        if (panel && status === 'ready') {
          void import('./actions').then(each =>
            each.runRefused(panel, reason, trans)
          );
        }
      }
    }
  };
  model.changed.connect(run);

  // Only while the page is away: a copy of the browser tab must not run the cell as well.
  const before = new Map<string, string>(
    JSON.parse(sessionStorage.getItem(KEY) ?? '[]')
  );
  sessionStorage.removeItem(KEY);
  window.addEventListener('pagehide', () => {
    const open = [...started].filter(([id]) => findPanel(tracker, id));
    sessionStorage.setItem(KEY, JSON.stringify(open));
  });
  const restore = (kernelId = ''): void => {
    const reason = before.get(kernelId);
    if (reason) {
      before.delete(kernelId);
      started.set(kernelId, reason);
      run();
    }
  };
  const watch = ({ sessionContext }: NotebookPanel): void => {
    sessionContext.kernelChanged.connect((_, { newValue }) =>
      restore(newValue?.id)
    );
    restore(sessionContext.session?.kernel?.id);
  };
  tracker.forEach(watch);
  tracker.widgetAdded.connect((_, panel) => watch(panel));
}

/** The notebook of a kernel. */
function findPanel(
  tracker: INotebookTracker,
  kernelId: string
): NotebookPanel | undefined {
  const hasKernel = (panel: NotebookPanel): boolean =>
    panel.sessionContext.session?.kernel?.id === kernelId;
  const { currentWidget } = tracker;
  return currentWidget && hasKernel(currentWidget)
    ? currentWidget
    : tracker.find(hasKernel);
}

/** Add the commands; code for the client is inserted into notebooks whose cluster is ready. */
export function addInsertCommands(
  gpuDask: IGpuDask,
  tracker: INotebookTracker,
  shell: JupyterFrontEnd.IShell
): void {
  const { model, current, commands, trans } = gpuDask;
  const find = (args: ReadonlyPartialJSONObject): NotebookPanel | undefined => {
    const id = String(args.kernelId ?? current.kernelId);
    return model.clusters.get(id)?.status === 'ready'
      ? findPanel(tracker, id)
      : undefined;
  };

  commands.addCommand(CommandIDs.insertCode, {
    label: trans.__('Insert Dask Client Code'),
    caption: trans.__(
      'Insert code that gets the Dask client in a new cell below the active cell'
    ),
    icon: addBelowIcon,
    describedBy: { args: KERNEL_ARGS },
    isEnabled: args => find(args) !== undefined,
    execute: async args => {
      const panel = find(args);
      if (panel) {
        shell.activateById(panel.id);
        (await import('./actions')).insertClientCode(panel);
      }
    }
  });

  commands.addCommand(CommandIDs.showCell, {
    label: trans.__('Show Cell'),
    describedBy: { args: { type: 'object' } },
    isVisible: () => false,
    execute: async args =>
      (await import('./actions')).showCell(args, commands, shell)
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
    execute: async () =>
      (await import('./actions')).runExample(tracker.currentWidget, gpuDask)
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
