import { nullTranslator } from '@jupyterlab/translation';

import { csvOf } from '../history/exports';
import { groupsOf, ratesOf, withGaps } from '../history/figures';
import { styleOf, stylesOf } from '../history/lines';
import { ISample, IWorkerFigures } from '../model/api';
import { Connection } from '../model/connection';
import { GpuDaskModel } from '../model/model';
import { RestClient } from '../model/rest';
import { cluster, FakeSocket, GIB, gpu, settingsOf } from './fakeServer';

const trans = nullTranslator.load('jupyter_gpudask');

function sample(time: number, changes: Partial<IWorkerFigures> = {}): ISample {
  const worker = {
    pool_used: null,
    spilled_to_host: GIB,
    spilled_to_disk: null,
    memory: 2 * GIB,
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

  beforeEach(() => {
    FakeSocket.all = [];
    const rest = new RestClient(settingsOf(() => new Response('{}')));
    model = new GpuDaskModel(new Connection(rest, Math.random, 900));
    model.look();
  });

  afterEach(() => model.dispose());

  function receive(history: ISample[]): void {
    const gpus = { gpus: [gpu()], reason: '', fix: '' };
    FakeSocket.last.send({ gpus, clusters: [cluster()], history });
  }

  it('asks for 15 minutes, and keeps them', () => {
    const since = Number(
      new URL(FakeSocket.last.url).searchParams.get('since')
    );
    expect(Math.round(Date.now() / 1000 - since)).toBe(900);
    receive([sample(1000), sample(1101), sample(2000)]);
    expect(model.samples.map(({ time }) => time)).toEqual([1101, 2000]);
  });

  it('has the figures that are known of each GPU and each worker', () => {
    receive([sample(1000), sample(1001)]);
    const groups = groupsOf(model, model.samples, trans);
    const found = groups.map(({ id, subjects, figures }) => [
      id,
      subjects.map(({ name, details }) => `${name}, ${details}`),
      figures.map(figure => [figure.id, figure.series])
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
        ['GPU 0, analysis.ipynb'],
        [
          ['tasks', [[null, 1]]],
          ['spilled', [[GIB, GIB]]],
          ['host', [[2 * GIB, 2 * GIB]]]
        ]
      ]
    ]);
  });

  it('has workers whose cluster is gone', () => {
    receive([sample(1000)]);
    model.remove('kernel-1');
    const [, workers] = groupsOf(model, model.samples, trans);
    expect(workers.subjects[0]).toMatchObject({
      name: 'Worker 0',
      details: 'an earlier cluster'
    });
  });

  it('breaks its lines where nobody looked', () => {
    const times = withGaps([sample(1000), sample(1001), sample(1100)]);
    expect(times.map(each => [each.time, 'GPU-0' in each.gpus])).toEqual([
      [1000, true],
      [1001, true],
      [1002, false],
      [1100, true]
    ]);
  });

  it('counts the tasks of the last seconds, and begins anew with a worker', () => {
    const times = [0, 1, 2, 8, 9, 10];
    expect(ratesOf(times, [null, 10, 14, 20, 20, 5])).toEqual([
      null,
      null,
      4,
      null,
      0,
      0
    ]);
  });

  it('is saved as a table with a column for each line', () => {
    receive([sample(999), sample(1000), sample(1001)]);
    const [gpus] = groupsOf(model, model.samples, trans);
    const range = { min: 1000, max: 1001 };
    expect(csvOf([gpus], [999, 1000, 1001], range).split('\r\n')).toEqual([
      'time,"GPU 0 (NVIDIA H200): Busy [%]","GPU 0 (NVIDIA H200): Memory [bytes]"',
      `1970-01-01T00:16:40.000Z,78,${41 * GIB}`,
      `1970-01-01T00:16:41.000Z,78,${41 * GIB}`,
      ''
    ]);
  });
});

describe('the lines', () => {
  it('all look different, but a worker looks like its GPU', () => {
    const base = { name: '', details: '' };
    const subjects = [
      { ...base, key: 'GPU-0', kernelId: '', id: 'GPU-0' },
      { ...base, key: 'GPU-1', kernelId: '', id: 'GPU-1' },
      { ...base, key: 'a GPU-1', kernelId: 'a', id: 'GPU-1' },
      { ...base, key: 'b GPU-1', kernelId: 'b', id: 'GPU-1' }
    ];
    expect([...stylesOf(subjects).values()]).toEqual([0, 1, 1, 2].map(styleOf));
    const looks = Array.from({ length: 32 }, (_, number) => styleOf(number));
    expect(new Set(looks.map(look => JSON.stringify(look))).size).toBe(32);
  });
});
