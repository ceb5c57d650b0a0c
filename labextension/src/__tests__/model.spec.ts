import { Signal } from '@lumino/signaling';

import { distinctName } from '../cluster/names';
import { Connection } from '../model/connection';
import { GpuDaskModel } from '../model/model';
import { RestClient } from '../model/rest';
import { cluster, FakeSocket, gpu, settingsOf } from './fakeServer';

let model: GpuDaskModel;

beforeEach(() => {
  FakeSocket.all = [];
  const rest = new RestClient(settingsOf(() => new Response('{}')));
  model = new GpuDaskModel(new Connection(rest));
});

afterEach(() => model.dispose());

function sample(time: number, utilization: number) {
  const metrics = {
    utilization,
    memory_used: null,
    nvlink: null,
    pcie: null
  };
  return { time, gpus: { 'GPU-0': metrics }, workers: {} };
}

function hidePage(hidden: boolean): void {
  Object.defineProperty(document, 'hidden', {
    configurable: true,
    get: () => hidden
  });
  document.dispatchEvent(new Event('visibilitychange'));
}

describe('the model', () => {
  it('is connected while it has a subscriber', () => {
    const first = model.subscribe();
    const second = model.subscribe();
    first.dispose();
    expect(model.status.kind).toBe('connecting');
    second.dispose();
    expect(model.status.kind).toBe('closed');
    expect(FakeSocket.all.map(socket => socket.isClosed)).toEqual([true]);
  });

  it('is not connected while the page is hidden', () => {
    model.subscribe();
    hidePage(true);
    expect(model.status.kind).toBe('closed');
    hidePage(false);
    expect(model.status.kind).toBe('connecting');
  });

  it('stays connected while the page is hidden and its notebook computes', () => {
    model.subscribe();
    model.setCurrent('kernel-1', 'analysis.ipynb');
    FakeSocket.last.send({ clusters: [cluster()] });
    hidePage(true);
    expect(model.status.kind).toBe('live');
    const state = { ...cluster().state!, tasks_unfinished: 0 };
    FakeSocket.last.send({ type: 'changes', clusters: [cluster({ state })] });
    expect(model.status.kind).toBe('closed');
    hidePage(false);
  });

  it('names clusters with their folders while two have the same name', () => {
    const names = () => [...model.clusters.values()].map(({ name }) => name);
    model.subscribe();
    const other = cluster({
      kernel_id: 'kernel-2',
      notebooks: ['analysis.ipynb']
    });
    const third = cluster({ kernel_id: 'kernel-3', name: 'train.ipynb' });
    FakeSocket.last.send({ clusters: [cluster(), other, third] });
    expect(names()).toEqual([
      'work/analysis.ipynb',
      'analysis.ipynb',
      'train.ipynb'
    ]);
    model.removeCluster('kernel-2');
    expect(names()).toEqual(['analysis.ipynb', 'train.ipynb']);

    // The current notebook, which has no cluster.
    model.setCurrent('kernel-9', 'other/analysis.ipynb');
    expect(names()).toEqual(['work/analysis.ipynb', 'train.ipynb']);
    model.setCurrent('kernel-1', 'work/analysis.ipynb');
    expect(names()).toEqual(['analysis.ipynb', 'train.ipynb']);
  });

  it.each([
    ['a/b/one.ipynb', ['a/c/one.ipynb'], 'b/one.ipynb'],
    ['a/b/one.ipynb', ['c/b/one.ipynb', 'two.ipynb'], 'a/b/one.ipynb'],
    ['b/one.ipynb', ['a/b/one.ipynb'], 'b/one.ipynb'],
    ['one.ipynb', ['a/one.ipynb'], 'one.ipynb'],
    ['a/one.ipynb', ['a/zone.ipynb', 'a/one.ipynb'], 'one.ipynb']
  ])('has the shortest name of %s beside %s', (path, others, name) => {
    expect(distinctName(path, others)).toBe(name);
  });

  it('gives notebooks that use a shared cluster its number', () => {
    model.subscribe();
    const shared = { kernel_id: 'shared-1', name: 'Shared cluster 1' };
    const user = { kernel_id: 'user', name: 'a.ipynb', joined: shared.name };
    const numbers = () =>
      ['user', 'shared-1', 'k'].map(id => model.numberOf(id));
    const receive = (clusters: ReturnType<typeof cluster>[]) =>
      FakeSocket.last.send({ clusters });
    receive([cluster(user), cluster(shared)]);
    expect(numbers()).toEqual([null, null, null]);
    receive([cluster(user), cluster(shared), cluster({ kernel_id: 'k' })]);
    expect(numbers()).toEqual([0, 0, 1]);
  });

  it('adds each sample once, and starts again if the clock was set back', () => {
    const times = () => model.samples.map(({ time }) => time);
    model.subscribe();
    const before = [sample(1000, 1), sample(1001, 2)];
    FakeSocket.last.send({ time: 1001, history: before });
    const after = [...before, sample(1002, 3)];
    FakeSocket.last.send({ time: 1002, history: after });
    expect(times()).toEqual([1000, 1001, 1002]);
    FakeSocket.last.send({ time: 500, history: [sample(500, 4)] });
    expect(times()).toEqual([500]);
  });

  it('applies a full state and its changes', () => {
    model.subscribe();
    const one = cluster();
    const two = cluster({ kernel_id: 'kernel-2' });
    const gpus = {
      gpus: [gpu()],
      waiting: [],
      reason: '',
      fix: '',
      error: null
    };
    FakeSocket.last.send({ gpus, clusters: [one, two] });
    FakeSocket.last.send({
      type: 'changes',
      gpus: null,
      clusters: [{ ...one, status: 'closing' }],
      removed: ['kernel-2']
    });
    expect(model.gpus).toEqual(gpus);
    expect([...model.clusters.values()].map(each => each.status)).toEqual([
      'closing'
    ]);
  });

  it('removes what a full state does not contain', () => {
    model.subscribe();
    FakeSocket.last.send({ clusters: [cluster()] });
    FakeSocket.last.send({ clusters: [] });
    expect(model.clusters.size).toBe(0);
  });

  it('keeps the metrics of the last minute', () => {
    model.subscribe();
    FakeSocket.last.send({ history: [sample(1000, 10), sample(1030, 20)] });
    FakeSocket.last.send({ type: 'changes', history: [sample(1061, 30)] });
    const times = [1030, 1061];
    expect(model.gpuHistory('GPU-0', 'utilization')).toEqual({
      times,
      metrics: [20, 30]
    });
    expect(model.gpuHistory('GPU-0', 'memory_used')).toEqual({
      times,
      metrics: [null, null]
    });
    expect(model.now).toBe(1061);
  });

  it('emits a signal for each message and status', () => {
    let changes = 0;
    model.changed.connect(() => (changes += 1));
    model.subscribe();
    FakeSocket.last.send({});
    expect(changes).toBe(3);
  });

  it.each([
    [1, [1]],
    [0.1, [0.1, 0.2, 0.4, 1, 1.1]]
  ])('emits metrics every %p s', (refresh, expected) => {
    const seen: number[] = [];
    const changed = new Signal<object, void>({});
    model.settings.follow({ composite: { refresh }, changed });
    model.subscribe();
    FakeSocket.last.send({ time: 0 });
    model.changed.connect(() => seen.push(model.now));
    for (const time of [0.1, 0.2, 0.4, 1, 1.1]) {
      const history = [sample(time, 1)];
      FakeSocket.last.send({ type: 'changes', time, history });
    }
    expect(seen).toEqual(expected);
  });
});
