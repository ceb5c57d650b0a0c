import { ICluster, IWorker, IWorkerExit } from '../model/api';
import { ClusterEventDetector } from '../notifications/clusterEvents';
import { cluster } from './fakeServer';

/** The kinds and workers of the events after each state of a cluster. */
function eventsAfter(...states: (ICluster | null)[]): string[][] {
  const detector = new ClusterEventDetector();
  return states.map(state =>
    detector
      .detect(state ? [state] : [])
      .map(({ kind, workers }) =>
        [kind, ...workers.map(({ name }) => name)].join(' ')
      )
  );
}

/** A cluster with these workers, and these exits of workers. */
function withWorkers(
  workers: Partial<IWorker>[],
  exits: IWorkerExit[] = []
): ICluster {
  const { state } = cluster();
  const [worker] = state?.workers ?? [];
  return cluster({
    state: state && {
      ...state,
      workers: workers.map(changes => ({ ...worker, ...changes })),
      worker_exits: exits,
      jobs: [],
      adaptive_range: null,
      seconds_without_workers: null,
      closes_at: null
    }
  });
}

it('reports that a cluster is ready whose start has waited in line', () => {
  const detector = new ClusterEventDetector();
  const kinds = (changes: Partial<ICluster>): string[] =>
    detector.detect([cluster(changes)]).map(({ kind }) => kind);
  const starting = { status: 'starting' as const, pid: null, state: null };
  expect(kinds({ ...starting, place: 2, since: 1 })).toEqual([]);
  expect(kinds({ ...starting, place: 0, since: 1 })).toEqual([]);
  expect(kinds({ since: 2 })).toEqual(['got-gpus']);
  expect(kinds({ since: 2 })).toEqual([]);
});

describe('the events of clusters', () => {
  it('do not include the state at the start of the page', () => {
    expect(eventsAfter(cluster({ status: 'failed' }))).toEqual([[]]);
  });

  it('include a failed start and a failed cluster once each', () => {
    const failed = cluster({ status: 'failed', since: 2 });
    expect(
      eventsAfter(cluster({ status: 'starting' }), failed, failed)
    ).toEqual([[], ['end'], []]);
    expect(eventsAfter(cluster(), failed, failed)).toEqual([[], ['end'], []]);
  });

  it('include clusters that were closed for a reason, but not those that were stopped by the user', () => {
    const idle = { reason: 'It was idle.' };
    expect(
      eventsAfter(
        cluster(),
        cluster({ status: 'closing', ...idle }),
        cluster({ status: 'closed', ...idle })
      )
    ).toEqual([[], [], ['end']]);
    expect(
      eventsAfter(cluster(), cluster({ status: 'closing' }), null)
    ).toEqual([[], [], []]);
  });
});

describe('the exits of workers', () => {
  const killed: IWorkerExit = {
    worker: '1',
    pid: 42,
    time: 1000,
    reason: 'was killed by signal 9',
    over_memory_limit: false
  };
  const overLimit: IWorkerExit = {
    worker: '0',
    pid: 41,
    time: 1001,
    reason: 'exceeded its memory limit',
    over_memory_limit: true
  };
  const both = [
    { name: '0', gpu_index: 0 },
    { name: '1', gpu_index: 1 }
  ];
  const [first] = both;

  it('are events once, by their reasons', () => {
    expect(
      eventsAfter(
        withWorkers(both),
        withWorkers([first], [killed]),
        withWorkers(both, [killed, overLimit]),
        withWorkers(both, [killed, overLimit])
      )
    ).toEqual([[], ['worker-lost 1'], ['out-of-host-memory 0'], []]);
  });

  it('name a worker once, with its GPU even if it has left', () => {
    const detector = new ClusterEventDetector();
    detector.detect([withWorkers(both)]);
    detector.detect([withWorkers([first])]);
    const again = { ...killed, pid: 43 };
    const [{ workers }] = detector.detect([
      withWorkers([first], [killed, again])
    ]);
    expect(workers).toMatchObject([{ name: '1', gpu_index: 1 }]);
  });

  it('are no events if they are older than the page or of another cluster', () => {
    const unknown = cluster({ state: null });
    expect(eventsAfter(unknown, withWorkers(both, [killed]))).toEqual([[], []]);
    const other = { ...withWorkers(both, [killed]), pid: 200 };
    expect(eventsAfter(withWorkers(both), other)).toEqual([[], []]);
  });

  it('are remembered while the state is not known', () => {
    const unknown = cluster({ state: null });
    const known = withWorkers(both, [killed]);
    expect(eventsAfter(known, unknown, known)).toEqual([[], [], []]);
  });
});

describe('tasks that ran out of device memory', () => {
  const withCounts = (...counts: number[]): ICluster =>
    withWorkers(
      counts.map((out_of_memory, index) => ({
        name: String(index),
        out_of_memory
      }))
    );
  const kind = 'out-of-device-memory';

  it('are events for their workers each time the count increases', () => {
    expect(
      eventsAfter(
        withCounts(4, 0),
        withCounts(4, 1),
        withCounts(4, 1),
        withCounts(5, 3)
      )
    ).toEqual([[], [`${kind} 1`], [], [`${kind} 0 1`]]);
  });

  it('are remembered for a worker that was absent, but not for a previous cluster', () => {
    expect(
      eventsAfter(withCounts(2, 0), withCounts(), withCounts(2, 0))
    ).toEqual([[], [], []]);
    const other = { ...withCounts(3), pid: 200 };
    expect(
      eventsAfter(withCounts(2), other, { ...withCounts(4), pid: 200 })
    ).toEqual([[], [], [`${kind} 0`]]);
  });
});
