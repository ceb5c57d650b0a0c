import { nullTranslator } from '@jupyterlab/translation';
import { MessageLoop } from '@lumino/messaging';
import { Signal } from '@lumino/signaling';
import { TabPanel, Widget } from '@lumino/widgets';

import { Units } from '../format';
import { axisTop, lineStyle, lineStyles, rangeAfterKey } from '../history/plot';
import { toCsv } from '../history/export';
import {
  formatValue,
  IGroup,
  metricGroups,
  sourcesOf
} from '../history/metrics';
import { HistoryStore, TaskRate } from '../history/store';
import { HistoryTab } from '../history/tab';
import { ISample, IWorkerMetrics } from '../model/api';
import { Connection } from '../model/connection';
import { GpuDaskModel } from '../model/model';
import { RestClient } from '../model/rest';
import { CurrentKernel } from '../notebook/currentKernel';
import { startApp } from './app';
import { cluster, FakeSocket, GIB, gpu, settingsOf } from './fakeServer';

const trans = nullTranslator.load('jupyter_gpudask');

function sample(time: number, changes: Partial<IWorkerMetrics> = {}): ISample {
  const worker = {
    pool_used: null,
    spilled_to_host: GIB,
    spilled_to_disk: null,
    memory: 2 * GIB,
    cpu: 42,
    executed: time,
    ...changes
  };
  return {
    time,
    gpus: {
      'GPU-0': {
        utilization: 78,
        memory_used: 41 * GIB,
        nvlink: null,
        pcie: null
      }
    },
    workers: { 'kernel-1': { '0': worker } }
  };
}

describe('the history', () => {
  let model: GpuDaskModel;
  let store: HistoryStore;

  beforeEach(() => {
    FakeSocket.all = [];
    const rest = new RestClient(settingsOf(() => new Response('{}')));
    const connection = new Connection(rest, Math.random, 900);
    model = new GpuDaskModel(connection, 60);
    store = new HistoryStore(900);
    connection.received.connect((_, { history }) => store.add(history));
    model.subscribe();
  });

  afterEach(() => model.dispose());

  function groupsIn(
    store: HistoryStore,
    currentId: string | null = null
  ): IGroup[] {
    const sources = sourcesOf(model, store, trans, currentId);
    return metricGroups(model, store, sources, trans);
  }

  function receive(history: ISample[]): void {
    const gpus = {
      gpus: [gpu()],
      waiting: [],
      reason: '',
      fix: '',
      error: null
    };
    FakeSocket.last.send({ gpus, clusters: [cluster()], history });
  }

  it('requests 15 minutes, and keeps them', () => {
    const since = Number(
      new URL(FakeSocket.last.url).searchParams.get('since')
    );
    expect(Math.abs(Date.now() / 1000 - since - 900)).toBeLessThan(60);
    receive([sample(1000), sample(1001)]);
    receive([sample(1001), sample(1870), sample(1930)]);
    expect(store.times).toEqual([1000, 1001, 1002, 1870, 1871, 1930]);
    receive([sample(1961)]);
    expect(store.times).toEqual([1870, 1871, 1930, 1931, 1961]);
    expect(store.gpus.get('GPU-0')?.series.busy).toEqual([
      78,
      null,
      78,
      null,
      78
    ]);
    expect(model.samples.map(({ time }) => time)).toEqual([1930, 1961]);
  });

  it('removes workers without samples', () => {
    receive([sample(1000)]);
    receive([{ ...sample(1961), workers: {} }]);
    expect([store.gpus.size, store.workers.size]).toEqual([1, 0]);
  });

  it('has no workers of other notebooks if the settings hide their clusters', () => {
    receive([sample(1000), sample(1001)]);
    model.settings.follow({
      composite: { otherClusters: 'hide' },
      changed: new Signal<unknown, void>({})
    });
    const ids = (currentId: string): string[] =>
      groupsIn(store, currentId).map(({ id }) => id);
    expect(ids('kernel-1')).toContain('workers');
    expect(ids('kernel-2')).not.toContain('workers');
  });

  it('comes to the front, and has the settings of the user, also after it is closed', () => {
    const changed = new Signal<unknown, void>({});
    const source = { composite: { units: 'GiB' }, changed };
    model.settings.follow(source);
    const app = startApp(settingsOf(() => new Response('{}')));
    const current = new CurrentKernel(app.shell);
    const gpuDask = {
      model,
      current,
      commands: app.commands,
      trans,
      rest: new RestClient(app.serviceManager.serverSettings),
      language: 'en'
    };
    const open = (): HistoryTab => new HistoryTab(gpuDask);
    const tab = open();
    // As in the down area of Notebook 7, where the logs may be in front.
    const area = new TabPanel();
    const logs = new Widget();
    area.addWidget(logs);
    area.addWidget(tab);
    MessageLoop.sendMessage(tab, Widget.Msg.ActivateRequest);
    expect(area.currentIndex).toBe(1);

    source.composite = { units: 'GB' };
    changed.emit();
    expect(tab.content.gpuDask.model.settings.value.units).toBe('GB');
    tab.dispose();
    logs.dispose();
    area.dispose();
    let count = 0;
    model.changed.connect(() => (count += 1));
    changed.emit();
    expect(count).toBe(1);
    app.shell.dispose();
  });

  it('has the traffic of GPUs that report it', () => {
    const [before, after] = [sample(1000), sample(1001)];
    after.gpus['GPU-0'].nvlink = 3 * GIB;
    receive([before, after]);
    const [{ metrics }] = groupsIn(store);
    expect(metrics.map(({ id, series }) => [id, series[0].at(-1)])).toEqual([
      ['busy', 78],
      ['memory', 41 * GIB],
      ['nvlink', 3 * GIB]
    ]);
  });

  it('has the known metrics of each GPU and worker', () => {
    receive([sample(1000), sample(1001)]);
    const groups = groupsIn(store);
    const found = groups.map(({ id, sources, metrics }) => [
      id,
      sources.map(({ name, details }) => `${name}, ${details}`),
      metrics.map(metric => [metric.id, metric.series])
    ]);
    expect(found).toEqual([
      [
        'gpus',
        ['GPU 0, NVIDIA H200'],
        [
          ['busy', [[78, 78]]],
          ['memory', [[41 * GIB, 41 * GIB]]]
        ]
      ],
      [
        'workers',
        ['GPU 0, analysis'],
        [
          ['tasks', [[null, 1]]],
          ['cpu', [[42, 42]]],
          ['spilled', [[GIB, GIB]]],
          ['host', [[2 * GIB, 2 * GIB]]]
        ]
      ]
    ]);
  });

  it('has the metrics of the machine', () => {
    const machine = { cpu: 30, memory_used: 9 * GIB, disk: 0, network: 7 };
    receive([sample(1000), { ...sample(1001), machine }]);
    const group = groupsIn(store).at(-1);
    expect(group).toMatchObject({
      title: 'Machine',
      sources: [{ name: 'This machine' }],
      metrics: [
        { id: 'cpu', top: 100, series: [[null, 30]] },
        { id: 'memory', top: 256 * GIB, series: [[null, 9 * GIB]] },
        // The disk has no traffic, and so no chart.
        { id: 'network', series: [[null, 7]] }
      ]
    });
  });

  it('has the workers of removed clusters', () => {
    receive([sample(1000)]);
    model.removeCluster('kernel-1');
    const [, workers] = groupsIn(store);
    expect(workers.sources[0]).toMatchObject({
      name: 'Worker 0',
      details: 'an earlier cluster'
    });
  });

  it('breaks its lines where samples are missing', () => {
    receive([sample(1000), sample(1001), sample(1100)]);
    expect(store.times).toEqual([1000, 1001, 1002, 1100]);
    const busy = store.gpus.get('GPU-0')?.series.busy;
    expect(busy).toEqual([78, 78, null, 78]);
  });

  it('averages the task rate over some seconds, and restarts with a worker', () => {
    const times = [0, 1, 2, 8, 9, 10];
    const counts = [null, 10, 14, 20, 20, 5];
    const rate = new TaskRate();
    expect(times.map((time, at) => rate.next(time, counts[at]))).toEqual([
      null,
      null,
      4,
      null,
      0,
      0
    ]);
  });

  it('is exported as CSV with a column for each line', () => {
    receive([sample(999), sample(1000), sample(1001)]);
    const [gpus] = groupsIn(store);
    const range = { min: 1000, max: 1001 };
    expect(toCsv([gpus], [999, 1000, 1001], range).split('\r\n')).toEqual([
      'time,"GPU 0 (NVIDIA H200): Busy [%]","GPU 0 (NVIDIA H200): Memory [bytes]"',
      `1970-01-01T00:16:40.000Z,78,${41 * GIB}`,
      `1970-01-01T00:16:41.000Z,78,${41 * GIB}`,
      ''
    ]);
  });
});

describe('the range of the history', () => {
  const all = { min: 0, max: 900 };
  const after = (
    keys: string,
    range = all,
    span = 900
  ): ReturnType<typeof rangeAfterKey> =>
    keys
      .split(' ')
      .reduce<ReturnType<typeof rangeAfterKey>>(
        (last, key) => rangeAfterKey(key, last ?? all, all, span),
        range
      );

  it('is zoomed around its center, and not below 10 seconds', () => {
    expect(after('+')).toEqual({ min: 225, max: 675 });
    expect(after('+ -')).toBeNull();
    expect(after('+ + -')).toEqual({ min: 225, max: 675 });
    expect(after('+', { min: 100, max: 112 })).toEqual({ min: 101, max: 111 });
    expect(after('+', { min: 101, max: 111 })).toBeUndefined();
  });

  it('is moved, also when it is zoomed out, within the times that are kept', () => {
    expect(after('+ ArrowRight')).toEqual({ min: 337.5, max: 787.5 });
    expect(after('+ ArrowLeft ArrowLeft ArrowLeft')).toBeUndefined();
    expect(after('ArrowLeft', { min: 840, max: 900 }, 60)).toEqual({
      min: 825,
      max: 885
    });
    expect(after('-', { min: 0, max: 300 })).toEqual({ min: 0, max: 600 });
    expect(after('ArrowLeft')).toBeUndefined();
  });

  it('is reset by 0 and Escape, and other keys do not change it', () => {
    expect(after('+ 0')).toBeNull();
    expect(after('+ Escape')).toBeNull();
    expect(after('Tab')).toBeUndefined();
  });
});

describe('the lines of the history', () => {
  it('use the units of the settings', () => {
    const inUnits = (units: Units): string[] => [
      formatValue(2e9, 'bytes', trans, units),
      formatValue(2e9, 'speed', trans, units)
    ];
    expect(inUnits('GiB')).toEqual(['1.9 GiB', '1.9 GiB/s']);
    expect(inUnits('GB')).toEqual(['2.0 GB', '2.0 GB/s']);
  });

  it('have axes that start at 0 and are not tiny while all values are 0', () => {
    expect(axisTop('bytes', 'GiB', undefined, 0)).toBe(GIB);
    expect(axisTop('speed', 'GB', undefined, null)).toBe(1e6);
    expect(axisTop('bytes', 'GiB', undefined, 10 * GIB)).toBe(11 * GIB);
    expect(axisTop('percent', 'GiB', 100, 0)).toBe(100);
    // The memory of a GPU that does not report its total.
    expect(axisTop('bytes', 'GiB', 0, 2 * GIB)).toBeCloseTo(2.2 * GIB);
  });

  it('have different styles, but a worker has that of its GPU', () => {
    const base = { name: '', details: '' };
    const sources = [
      { ...base, key: 'GPU-0', kernelId: '', id: 'GPU-0' },
      { ...base, key: 'GPU-1', kernelId: '', id: 'GPU-1' },
      { ...base, key: 'a GPU-1', kernelId: 'a', id: 'GPU-1' },
      { ...base, key: 'b GPU-1', kernelId: 'b', id: 'GPU-1' }
    ];
    expect([...lineStyles(sources).values()]).toEqual(
      [0, 1, 1, 2].map(lineStyle)
    );
    const looks = Array.from({ length: 32 }, (_, number) => lineStyle(number));
    expect(new Set(looks.map(look => JSON.stringify(look))).size).toBe(32);
  });
});
