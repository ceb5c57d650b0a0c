import { ICluster, IWorker } from '../model/api';
import { endOfWorker, IncidentFinder } from '../notifications/clusterEvents';
import { cluster } from './fakeServer';

/** A cluster whose workers are these processes. */
function withWorkers(...pids: (number | null)[]): ICluster {
  const { state } = cluster();
  const [worker] = state?.workers ?? [];
  const workers: IWorker[] = pids.map((pid, index) => ({
    ...worker,
    name: String(index),
    gpu_index: index,
    pid
  }));
  return cluster({ state: state && { ...state, workers } });
}

/** What is found after each of these states of one cluster. */
function found(...states: (ICluster | null)[]): string[][] {
  const finder = new IncidentFinder();
  return states.map(state =>
    finder
      .find(state ? [state] : [])
      .map(({ kind, replaced }) =>
        [kind, ...replaced.map(({ pid }) => pid)].join(' ')
      )
  );
}

describe('the incidents of clusters', () => {
  it('are not what was so before the page came', () => {
    expect(found(cluster({ status: 'failed' }))).toEqual([[]]);
  });

  it('are a start that failed, and a cluster that did, once each', () => {
    const failed = cluster({ status: 'failed', since: 2 });
    expect(found(cluster({ status: 'starting' }), failed, failed)).toEqual([
      [],
      ['not-started'],
      []
    ]);
    expect(found(cluster(), failed, failed)).toEqual([[], ['failed'], []]);
  });

  it('are clusters that were closed for a reason, and not those that somebody stopped', () => {
    const idle = { reason: 'It was idle.' };
    expect(
      found(
        cluster(),
        cluster({ status: 'closing', ...idle }),
        cluster({ status: 'closed', ...idle })
      )
    ).toEqual([[], [], ['closed']]);
    expect(found(cluster(), cluster({ status: 'closing' }), null)).toEqual([
      [],
      [],
      []
    ]);
  });

  it('are workers in whose place others came, also after they were away', () => {
    expect(
      found(
        withWorkers(1, 2),
        withWorkers(1),
        withWorkers(1, null),
        withWorkers(1, 3),
        withWorkers(1, 3)
      )
    ).toEqual([[], [], [], ['workers-replaced 2'], []]);
  });

  it('are not the workers of a cluster that was restarted', () => {
    const again = { ...withWorkers(8, 9), pid: 200 };
    expect(
      found(
        withWorkers(1, 2),
        cluster({ status: 'starting', pid: null }),
        again
      )
    ).toEqual([[], [], []]);
  });
});

describe('tasks that run out of device memory', () => {
  /** A cluster on whose workers so many tasks have failed for want of it. */
  function withShortages(...out_of_memory: number[]): ICluster {
    const { state, ...rest } = withWorkers(...out_of_memory);
    const workers = state?.workers.map((worker, index) => ({
      ...worker,
      out_of_memory: out_of_memory[index],
      pid: 1
    }));
    return { ...rest, state: state && { ...state, workers: workers ?? [] } };
  }

  function short(...states: ICluster[]): string[][] {
    const finder = new IncidentFinder();
    return states.map(state =>
      finder
        .find([state])
        .flatMap(({ kind, short }) => [kind, ...short.map(({ name }) => name)])
    );
  }

  const kind = 'out-of-device-memory';

  it('are told of the workers that they ran on, each time that there are more', () => {
    expect(
      short(
        withShortages(4, 0),
        withShortages(4, 1),
        withShortages(4, 1),
        withShortages(5, 3)
      )
    ).toEqual([[], [kind, '1'], [], [kind, '0', '1']]);
  });

  it('are remembered of a worker that was away, and not of a cluster before', () => {
    expect(
      short(withShortages(2, 0), withShortages(), withShortages(2, 0))
    ).toEqual([[], [], []]);
    const another = { ...withShortages(3), pid: 200 };
    expect(
      short(withShortages(2), another, { ...withShortages(4), pid: 200 })
    ).toEqual([[], [], [kind, '0']]);
  });
});

describe('the end of a worker', () => {
  const log = `Worker tcp://127.0.0.1:1 (pid=41) exceeded 95% memory budget. Restarting...
Worker process 41 was killed by signal 15
Worker process 42 was killed by signal 9`;

  it.each([
    [41, 'out-of-memory'],
    [42, 'lost'],
    [4, undefined],
    [43, undefined]
  ])('of process %d is %s by the log', (pid, end) => {
    expect(endOfWorker(log, pid)).toBe(end);
  });
});
