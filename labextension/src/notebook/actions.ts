/**
 * What is done in notebooks; loaded when that is first needed.
 */
import { JupyterFrontEnd } from '@jupyterlab/application';
import { ISessionContext, Notification } from '@jupyterlab/apputils';
import { Notebook, NotebookActions, NotebookPanel } from '@jupyterlab/notebook';
import { CommandRegistry } from '@lumino/commands';
import { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import { CommandIDs } from '../commandIDs';
import { errorMessage } from '../errors';
import { ResponseError } from '../model/rest';
import { CLIENT_CODE, EXAMPLE_CODE } from '../snippets';
import { IGpuDask } from '../tokens';
import { findNotebook } from './currentKernel';

/** JupyterLab's command, which in Notebook 7 opens a page. */
const OPEN = 'docmanager:open';

/** Errors without a notification: the kernel has a cluster already, or cannot have one. */
const IGNORED_ERRORS = ['ClusterExistsError', 'KernelUnsuitableError'];

/** Start the cluster of a kernel; an error is a notification. */
export async function startCluster(
  kernelId: string,
  name: string,
  { model, rest, trans }: IGpuDask
): Promise<void> {
  try {
    model.updateCluster(await rest.start(kernelId));
  } catch (error) {
    const kind = error instanceof ResponseError ? error.problem.kind : '';
    if (!IGNORED_ERRORS.includes(kind)) {
      Notification.warning(
        trans.__(
          'No cluster was started for %1: %2',
          name,
          errorMessage(error, trans)
        ),
        // Without this it is only listed behind the bell of the status bar.
        { autoClose: 10000 }
      );
    }
  }
}

/** Insert code that gets the Dask client of the notebook's cluster. */
export function insertClientCode(panel: NotebookPanel): void {
  insertCell(panel, CLIENT_CODE);
}

/** Insert and run a computation; every cell that uses Dask then runs on the GPUs. */
export async function runExample(
  panel: NotebookPanel | null,
  { model, current, commands }: IGpuDask
): Promise<void> {
  const isOn = model.clusters.get(current.kernelId ?? '')?.automatic;
  if (panel && (isOn || (await commands.execute(CommandIDs.runOnGpus)))) {
    insertCell(panel, EXAMPLE_CODE);
    await NotebookActions.run(panel.content, panel.sessionContext);
  }
}

/** Open a notebook, make the cell with an id its active cell, and scroll to it. */
export async function showCell(
  { kernelId, path, cell }: ReadonlyPartialJSONObject,
  commands: CommandRegistry,
  shell: JupyterFrontEnd.IShell
): Promise<void> {
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

/** Run the last cell again that was refused its GPUs for a reason, before it has run any other code, if it has not changed. */
export async function runRefused(
  { content, context, sessionContext }: NotebookPanel,
  reason: string,
  trans: IGpuDask['trans']
): Promise<void> {
  await context.ready;
  // What a command refuses is no error with a traceback.
  const text = JSON.stringify(`UsageError: ${reason}`).slice(1, -1);
  const counts = content.widgets.map(({ model: { sharedModel } }) =>
    'getOutputs' in sharedModel &&
    JSON.stringify(sharedModel.getOutputs()).includes(text) &&
    isRefusedFirst(sharedModel.getSource())
      ? (sharedModel.execution_count ?? 0)
      : -1
  );
  const last = Math.max(...counts);
  if (last < 0) {
    return;
  }
  const cell = content.widgets[counts.indexOf(last)];
  const refused = await sourceOf(last, sessionContext);
  if (cell.model.sharedModel.getSource().trimEnd() !== refused) {
    Notification.info(
      trans.__(
        'The cell of %1 that waited for GPUs was not run: it was changed, or the kernel was restarted.',
        sessionContext.name
      ),
      { autoClose: 10000 }
    );
    return;
  }
  const { activeCellIndex, mode } = content;
  content.deselectAll();
  content.activeCellIndex = content.widgets.indexOf(cell);
  const run = NotebookActions.run(content, sessionContext);
  // Who writes in another cell goes on.
  content.activeCellIndex = activeCellIndex;
  content.mode = mode;
  await run;
}

/** The source that the kernel has run with an execution count; undefined after a restart. */
async function sourceOf(
  count: number,
  { session }: ISessionContext
): Promise<string | undefined> {
  const reply = await session?.kernel?.requestHistory({
    hist_access_type: 'range',
    session: 0,
    start: count,
    stop: count + 1,
    raw: true,
    output: false
  });
  const history = reply?.content.status === 'ok' ? reply.content.history : [];
  return history.map(([, , source]) => `${source}`.trimEnd()).at(0);
}

/** Whether a cell has no code before the command that starts a cluster; after `%gpudask on` it has no command. */
export function isRefusedFirst(source: string): boolean {
  return (
    /^([ \t]*([%#].*)?\n)*[ \t]*%%?gpudask/.test(source) ||
    !/%gpudask/.test(source)
  );
}

/** Say in each line of progress of a notebook that it has ended. */
export function endLines({ widgets }: Notebook): void {
  widgets.forEach(({ model: { sharedModel } }) => {
    if ('getOutputs' in sharedModel) {
      const outputs = JSON.stringify(sharedModel.getOutputs());
      const ended = withoutKernel(outputs);
      if (ended !== outputs) {
        sharedModel.setOutputs(JSON.parse(ended));
      }
    }
  });
}

/** Outputs as JSON in which each line of progress, as text or as HTML, says that it has ended. */
export function withoutKernel(outputs: string): string {
  return outputs.replace(
    /([">])(?!Ended )([^"<>]+ · last seen \d{4}-[^"<>]+ UTC)/g,
    (_, before: string, line: string) =>
      `${before}Ended without a result: ${line.replace(/ · about [^·]+ left/, '')}`
  );
}

/** Insert code in a new cell below the active cell, and make it the active cell. */
function insertCell({ content }: NotebookPanel, code: string): void {
  NotebookActions.insertBelow(content);
  content.activeCell?.model.sharedModel.setSource(code);
}
