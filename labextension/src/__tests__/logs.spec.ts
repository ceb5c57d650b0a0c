import { nullTranslator } from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';

import { filterRecords, parseLog } from '../logs/records';
import { LogsTab } from '../logs/tab';
import { Connection } from '../model/connection';
import { GpuDaskModel } from '../model/model';
import { RestClient } from '../model/rest';
import { CurrentKernel } from '../notebook/currentKernel';
import { startApp } from './app';
import { cluster, rendered, FakeSocket, settingsOf } from './fakeServer';

const LOG = `2026-11-22 08:00:00,123 - distributed.worker - INFO - Starting
a line that a task has printed
2026-11-22 08:00:01,000 - distributed.worker - WARNING - Compute Failed
Key: x-1
Traceback (most recent call last):
  File "a.py", line 1
ValueError: no
ERROR:jupyter_gpudask.supervisor:lost
`;

const FRAMES = `  File "a.py", line 1
ValueError: no`;

const texts = (level: 'INFO' | 'WARNING' | 'ERROR' | null, text = '') =>
  filterRecords(parseLog(LOG), { level, text }).map(
    record => record.text.split('\n')[0]
  );

describe('the records of a log', () => {
  it('have no colors of a terminal, which hide the level of a line', () => {
    const records = parseLog(
      '\x1b[1;31mERROR:app:lost\x1b[0m\n\x1b[32mprinted\x1b[0m\n'
    );
    expect(records).toEqual([
      { level: 'ERROR', text: 'ERROR:app:lost' },
      { level: null, text: 'printed' }
    ]);
  });

  it('have the levels of Dask and Python; details belong to their warning', () => {
    const records = parseLog(LOG);
    expect(records.map(({ level }) => level)).toEqual([
      'INFO',
      null,
      'WARNING',
      'ERROR'
    ]);
    expect(records[2].text).toContain('Compute Failed\nKey: x-1\nTraceback ');
    expect(records[2].text).toMatch(/ValueError: no$/);
    expect(parseLog('')).toEqual([]);
  });

  it('end with their traceback; what a task prints then is no part of them', () => {
    const records = parseLog(`${FRAMES}
${LOG}line 1
line 2
  of a table
Traceback (most recent call last):
${FRAMES}

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
${FRAMES}
epoch: 3
2026-11-22 08:00:02,000 - distributed.core - ERROR - refused
Traceback (most recent call last):
${FRAMES}
loss 0.3`);
    expect(
      records.map(({ level, text }) => [level, text.split('\n').length])
    ).toEqual([
      ['ERROR', 2],
      ['INFO', 1],
      [null, 1],
      ['WARNING', 5],
      ['ERROR', 1],
      [null, 1],
      [null, 2],
      ['ERROR', 9],
      [null, 1],
      ['ERROR', 4],
      [null, 1]
    ]);
    expect(filterRecords(records, { level: 'ERROR', text: '' })).toHaveLength(
      4
    );
  });

  it('have all details of a failed task, whose arguments have lines of their own', () => {
    const failure = `2026-11-22 08:00:01,000 - distributed.worker - ERROR - Compute Failed
Key:       x-1
Task:  <Task 'x-1' f(   a
0  1)>
Exception: 'ValueError("no")'
Traceback: '  File "a.py", line 1'`;
    const records = parseLog(`${failure}\nnext: 1`);
    expect(records.map(({ text }) => text)).toEqual([failure, 'next: 1']);
  });

  it('are filtered by level', () => {
    expect(texts(null)).toHaveLength(4);
    expect(texts('WARNING')).toEqual([
      '2026-11-22 08:00:01,000 - distributed.worker - WARNING - Compute Failed',
      'ERROR:jupyter_gpudask.supervisor:lost'
    ]);
    expect(texts('ERROR')).toHaveLength(1);
  });

  it('are searched in any case, also in further lines', () => {
    expect(texts(null, 'VALUEERROR')).toHaveLength(1);
    expect(texts(null, 'nowhere')).toEqual([]);
  });
});

describe('the tab with the logs', () => {
  it('follows the name of the notebook', async () => {
    FakeSocket.all = [];
    const rest = new RestClient(settingsOf(() => new Response('{}')));
    const app = startApp(rest.settings);
    const model = new GpuDaskModel(new Connection(rest));
    const current = new CurrentKernel(app.shell);
    const commands = new CommandRegistry();
    const trans = nullTranslator.load('jupyter_gpudask');
    const tab = new LogsTab(
      { model, rest, current, commands, trans, language: 'en' },
      cluster()
    );
    expect(tab.title.label).toBe('Logs: analysis.ipynb');

    model.subscribe();
    FakeSocket.last.send({ clusters: [cluster({ name: 'renamed.ipynb' })] });
    await rendered();
    expect(tab.title.label).toBe('Logs: renamed.ipynb');

    FakeSocket.last.send({ clusters: [] });
    await rendered();
    expect(tab.title.label).toBe('Logs: renamed.ipynb');
    tab.dispose();
    model.dispose();
    app.shell.dispose();
  });
});
