/**
 * Detects events of clusters that the user did not cause, such as failures.
 */
import { ICluster, IWorker, IWorkerExit } from '../model/api';

/** Identifies a worker, also one that has left the cluster. */
export type WorkerId = Pick<IWorker, 'name' | 'gpu_index'>;

/** An event of a cluster. */
export interface IClusterEvent {
  kind:
    | 'end'
    | 'gpus-wanted'
    | 'got-gpus'
    | 'closes-soon'
    | 'worker-lost'
    | 'out-of-host-memory'
    | 'out-of-device-memory';
  cluster: ICluster;
  /** The workers that were lost or ran out of memory. */
  workers: WorkerId[];
  /** Whether it ended before it was ready. */
  wasStarting?: boolean;
}

/** The last known state of a cluster. */
interface ILastState {
  cluster: ICluster;
  /** The workers by name, including those that have left. */
  workers: Map<string, IWorker>;
  /** The exits of workers; null if not known yet. */
  exits: IWorkerExit[] | null;
  /** Whether its start has waited in line for GPUs. */
  hasWaited: boolean;
}

/**
 * Detects events by comparing the states of clusters; the first state of each is no event.
 */
export class ClusterEventDetector {
  /** The events since the last call. */
  detect(clusters: Iterable<ICluster>): IClusterEvent[] {
    const states = new Map<string, ILastState>();
    const events: IClusterEvent[] = [];
    for (const cluster of clusters) {
      const last = this._states.get(cluster.kernel_id);
      states.set(cluster.kernel_id, nextState(cluster, last));
      if (last) {
        events.push(...compare(last, cluster));
      }
    }
    this._states = states;
    return events;
  }

  private _states = new Map<string, ILastState>();
}

/** Update the last state; another pid is another cluster, with other workers. */
function nextState(cluster: ICluster, last?: ILastState): ILastState {
  const old = last?.cluster.pid === cluster.pid ? last : undefined;
  const workers = new Map(old?.workers);
  cluster.state?.workers.forEach(worker => workers.set(worker.name, worker));
  const exits = cluster.state?.worker_exits ?? old?.exits ?? null;
  const hasWaited = cluster.place > 0 || Boolean(last?.hasWaited);
  return { cluster, workers, exits, hasWaited };
}

function compare(last: ILastState, cluster: ICluster): IClusterEvent[] {
  const events = [
    ...statusEvents(last, cluster),
    ...noticeEvents(last, cluster)
  ];
  const isSame = last.cluster.pid === cluster.pid;
  return events.length === 0 && isSame ? workerEvents(last, cluster) : events;
}

function statusEvents(
  { cluster: old, hasWaited }: ILastState,
  cluster: ICluster
): IClusterEvent[] {
  if (cluster.status === old.status && cluster.since === old.since) {
    return [];
  }
  const { status, reason } = cluster;
  const wasStarting = old.status === 'starting';
  if (status === 'ready' && wasStarting && hasWaited) {
    return [{ kind: 'got-gpus', cluster, workers: [] }];
  }
  // A cluster that the user has stopped has no reason.
  return status === 'failed' || (status === 'closed' && reason)
    ? [{ kind: 'end', cluster, workers: [], wasStarting }]
    : [];
}

function noticeEvents(
  { cluster: old }: ILastState,
  cluster: ICluster
): IClusterEvent[] {
  const isWanted =
    cluster.given_over_at && cluster.given_over_at !== old.given_over_at;
  const closesSoon = cluster.state?.closes_at && !old.state?.closes_at;
  return [
    ...(isWanted
      ? [{ kind: 'gpus-wanted' as const, cluster, workers: [] }]
      : []),
    ...(closesSoon
      ? [{ kind: 'closes-soon' as const, cluster, workers: [] }]
      : [])
  ];
}

function workerEvents(last: ILastState, cluster: ICluster): IClusterEvent[] {
  const { workers = [], worker_exits: exits = [] } = cluster.state ?? {};
  const newExits = exits.filter(exit => isNew(exit, last.exits));
  const exited = (isOverLimit: boolean): WorkerId[] =>
    workersOf(
      newExits.filter(exit => exit.over_memory_limit === isOverLimit),
      [...last.workers.values(), ...workers]
    );
  const outOfMemory = workers.filter(
    ({ name, out_of_memory: count }) =>
      count > (last.workers.get(name)?.out_of_memory ?? 0)
  );
  const events: IClusterEvent[] = [
    { kind: 'worker-lost', cluster, workers: exited(false) },
    { kind: 'out-of-host-memory', cluster, workers: exited(true) },
    { kind: 'out-of-device-memory', cluster, workers: outOfMemory }
  ];
  return events.filter(event => event.workers.length > 0);
}

function isNew(exit: IWorkerExit, known: IWorkerExit[] | null): boolean {
  return (
    known !== null &&
    !known.some(({ pid, time }) => pid === exit.pid && time === exit.time)
  );
}

/** The workers that have exited, each once. */
function workersOf(exits: IWorkerExit[], workers: IWorker[]): WorkerId[] {
  const names = new Set(exits.map(({ worker }) => worker));
  return [...names].map(
    name =>
      workers.find(worker => worker.name === name) ?? { name, gpu_index: null }
  );
}
