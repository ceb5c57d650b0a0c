import { ICluster, IWorker } from '../model/api';
import {
  workerExitReason,
  ClusterEventDetector
} from '../notifications/clusterEvents';
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

/** The events after each state of a cluster. */
function eventsAfter(...states: (ICluster | null)[]): string[][] {
  const detector = new ClusterEventDetector();
  return states.map(state =>
    detector
      .detect(state ? [state] : [])
      .map(({ kind, restarted }) =>
        [kind, ...restarted.map(({ pid }) => pid)].join(' ')
      )
  );
}

describe('the events of clusters', () => {
  it('do not include the state at the start of the page', () => {
    expect(eventsAfter(cluster({ status: 'failed' }))).toEqual([[]]);
  });

  it('include a failed start and a failed cluster once each', () => {
    const failed = cluster({ status: 'failed', since: 2 });
    expect(
      eventsAfter(cluster({ status: 'starting' }), failed, failed)
    ).toEqual([[], ['start-failed'], []]);
    expect(eventsAfter(cluster(), failed, failed)).toEqual([
      [],
      ['failed'],
      []
    ]);
  });

  it('include clusters that were closed for a reason, but not those that were stopped by the user', () => {
    const idle = { reason: 'It was idle.' };
    expect(
      eventsAfter(
        cluster(),
        cluster({ status: 'closing', ...idle }),
        cluster({ status: 'closed', ...idle })
      )
    ).toEqual([[], [], ['closed']]);
    expect(
      eventsAfter(cluster(), cluster({ status: 'closing' }), null)
    ).toEqual([[], [], []]);
  });

  it('include workers that were restarted, also after an absence', () => {
    expect(
      eventsAfter(
        withWorkers(1, 2),
        withWorkers(1),
        withWorkers(1, null),
        withWorkers(1, 3),
        withWorkers(1, 3)
      )
    ).toEqual([[], [], [], ['workers-restarted 2'], []]);
  });

  it('do not include the workers of a restarted cluster', () => {
    const again = { ...withWorkers(8, 9), pid: 200 };
    expect(
      eventsAfter(
        withWorkers(1, 2),
        cluster({ status: 'starting', pid: null }),
        again
      )
    ).toEqual([[], [], []]);
  });
});

describe('tasks that run out of device memory', () => {
  /** A cluster on whose workers these numbers of tasks ran out of device memory. */
  function withCounts(...out_of_memory: number[]): ICluster {
    const { state, ...rest } = withWorkers(...out_of_memory);
    const workers = state?.workers.map((worker, index) => ({
      ...worker,
      out_of_memory: out_of_memory[index],
      pid: 1
    }));
    return { ...rest, state: state && { ...state, workers: workers ?? [] } };
  }

  function detected(...states: ICluster[]): string[][] {
    const detector = new ClusterEventDetector();
    return states.map(state =>
      detector
        .detect([state])
        .flatMap(({ kind, outOfMemory }) => [
          kind,
          ...outOfMemory.map(({ name }) => name)
        ])
    );
  }

  const kind = 'out-of-device-memory';

  it('are reported for their workers each time the count increases', () => {
    expect(
      detected(
        withCounts(4, 0),
        withCounts(4, 1),
        withCounts(4, 1),
        withCounts(5, 3)
      )
    ).toEqual([[], [kind, '1'], [], [kind, '0', '1']]);
  });

  it('are remembered for a worker that was absent, but not for a previous cluster', () => {
    expect(detected(withCounts(2, 0), withCounts(), withCounts(2, 0))).toEqual([
      [],
      [],
      []
    ]);
    const another = { ...withCounts(3), pid: 200 };
    expect(
      detected(withCounts(2), another, { ...withCounts(4), pid: 200 })
    ).toEqual([[], [], [kind, '0']]);
  });
});

describe('the exit of a worker', () => {
  const log = `Worker tcp://127.0.0.1:1 (pid=41) exceeded 95% memory budget. Restarting...
Worker process 41 was killed by signal 15
Worker process 42 was killed by signal 9`;

  it.each([
    [41, 'out-of-memory'],
    [42, 'lost'],
    [4, undefined],
    [43, undefined]
  ])('of process %d is %s according to the log', (pid, reason) => {
    expect(workerExitReason(log, pid)).toBe(reason);
  });
});
