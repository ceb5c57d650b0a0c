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
  it('is connected while at least one looks', () => {
    const first = model.look();
    const second = model.look();
    first.dispose();
    expect(model.status.kind).toBe('connecting');
    second.dispose();
    expect(model.status.kind).toBe('closed');
    expect(FakeSocket.all.map(socket => socket.isClosed)).toEqual([true]);
  });

  it('is not connected while the page is hidden', () => {
    model.look();
    hidePage(true);
    expect(model.status.kind).toBe('closed');
    hidePage(false);
    expect(model.status.kind).toBe('connecting');
  });

  it('knows each moment once, and begins anew when the clock was set back', () => {
    const times = () => model.samples.map(({ time }) => time);
    model.look();
    const before = [sample(1000, 1), sample(1001, 2)];
    FakeSocket.last.send({ time: 1001, history: before });
    const after = [...before, sample(1002, 3)];
    FakeSocket.last.send({ time: 1002, history: after });
    expect(times()).toEqual([1000, 1001, 1002]);
    FakeSocket.last.send({ time: 500, history: [sample(500, 4)] });
    expect(times()).toEqual([500]);
  });

  it('takes a full state, and changes of it', () => {
    model.look();
    const one = cluster();
    const two = cluster({ kernel_id: 'kernel-2' });
    const gpus = { gpus: [gpu()], reason: '', fix: '' };
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

  it('forgets with a full state what is not in it', () => {
    model.look();
    FakeSocket.last.send({ clusters: [cluster()] });
    FakeSocket.last.send({ clusters: [] });
    expect(model.clusters.size).toBe(0);
  });

  it('keeps the metrics of the last minute', () => {
    model.look();
    FakeSocket.last.send({ history: [sample(1000, 10), sample(1030, 20)] });
    FakeSocket.last.send({ type: 'changes', history: [sample(1061, 30)] });
    expect(model.past('GPU-0')).toEqual({
      times: [1030, 1061],
      utilization: [20, 30],
      memory: [null, null]
    });
    expect(model.now).toBe(1061);
  });

  it('tells its views of each message and each status', () => {
    let changes = 0;
    model.changed.connect(() => (changes += 1));
    model.look();
    FakeSocket.last.send({});
    expect(changes).toBe(3);
  });
});
