import { Notification } from '@jupyterlab/apputils';
import { NotebookActions, NotebookPanel } from '@jupyterlab/notebook';
import { nullTranslator } from '@jupyterlab/translation';

import { isRefusedFirst, runRefused } from '../notebook/actions';

it.each([
  ['%%gpudask\nx.compute()', true],
  ['%gpudask start --gpus all\nx.compute()', true],
  ['# Start\n\n%load_ext jupyter_gpudask\n%gpudask on\n', true],
  ['x.compute()', true],
  ['x = 1\n%gpudask start\nx.compute()', false],
  ['for x in y:\n    %gpudask start', false]
])('a cell is refused before its other code has run: %j', (source, isFirst) => {
  expect(isRefusedFirst(source)).toBe(isFirst);
});

const REASON = 'GPU 0 is reserved by "other.ipynb".';

/** A notebook with a refused cell and another one, and a kernel that has run some code. */
function notebookOf(source: string, executed: string[]): NotebookPanel {
  const cell = (text: string, count: number, code: string): object => ({
    model: {
      sharedModel: {
        getOutputs: () => [{ output_type: 'stream', text }],
        getSource: () => code,
        execution_count: count
      }
    }
  });
  const kernel = {
    requestHistory: ({ start }: { start: number }) => {
      const history = executed
        .slice(start, start + 1)
        .map(code => [0, start, code]);
      return Promise.resolve({ content: { status: 'ok', history } });
    }
  };
  return {
    content: {
      widgets: [
        cell('done', 2, 'x.compute()'),
        cell(`UsageError: ${REASON}`, 1, source)
      ],
      deselectAll: () => undefined,
      activeCellIndex: 0,
      mode: 'edit'
    },
    context: { ready: Promise.resolve() },
    sessionContext: { name: 'mine.ipynb', session: { kernel } }
  } as unknown as NotebookPanel;
}

it.each([
  ['is run if it is unchanged', '%%gpudask\nx', ['', '%%gpudask\nx'], 1],
  ['is not run if it was edited', '%%gpudask\ny', ['', '%%gpudask\nx'], 0],
  ['is not run in a restarted kernel', '%%gpudask\nx', [''], 0]
])('a refused cell %s', async (_, source, executed, times) => {
  const panel = notebookOf(source, executed);
  const ran: number[] = [];
  const run = jest
    .spyOn(NotebookActions, 'run')
    .mockImplementation(({ activeCellIndex }) => {
      ran.push(activeCellIndex);
      return Promise.resolve(true);
    });
  const notify = jest.spyOn(Notification, 'info');
  await runRefused(panel, REASON, nullTranslator.load(''));
  expect(ran).toEqual(Array(times).fill(1));
  expect(panel.content).toMatchObject({ activeCellIndex: 0, mode: 'edit' });
  expect(notify.mock.calls.map(([message]) => message)).toEqual(
    times === 1
      ? []
      : [
          'The cell of mine.ipynb that waited for GPUs was not run: it was changed, or the kernel was restarted.'
        ]
  );
  run.mockRestore();
  notify.mockRestore();
});
