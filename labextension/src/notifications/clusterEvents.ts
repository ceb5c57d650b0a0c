/**
 * Detects events of clusters that the user did not cause, such as failures.
 */
import { ICluster, IWorker } from '../model/api';

/** An event of a cluster. */
export interface IClusterEvent {
  kind:
    | 'start-failed'
    | 'failed'
    | 'closed'
    | 'workers-restarted'
    | 'out-of-device-memory';
  cluster: ICluster;
  /** The workers that were restarted, each with the pid of its previous process. */
  restarted: { worker: IWorker; pid: number }[];
  /** The workers on which tasks ran out of device memory. */
  outOfMemory: IWorker[];
}

/** The last known state of a cluster. */
interface ILastState {
  cluster: ICluster;
  /** The pids of the workers by name, including those that have left. */
  pids: Map<string, number>;
  /** The counts of tasks that ran out of device memory, by the name of the worker. */
  outOfMemory: Map<string, number>;
}

/**
 * Detects events by comparing the states of clusters; the first state of each is no event.
 */
export class ClusterEventDetector {
  /** The events since the last call. */
  detect(clusters: Iterable<ICluster>): IClusterEvent[] {
    const known = new Map<string, ILastState>();
    const events: IClusterEvent[] = [];
    for (const cluster of clusters) {
      const last = this._known.get(cluster.kernel_id);
      known.set(cluster.kernel_id, {
        cluster,
        pids: pidsOf(cluster, last),
        outOfMemory: outOfMemoryCounts(cluster, last)
      });
      if (last) {
        events.push(...compare(last, cluster));
      }
    }
    this._known = known;
    return events;
  }

  private _known = new Map<string, ILastState>();
}

function compare(last: ILastState, now: ICluster): IClusterEvent[] {
  const { cluster: old } = last;
  const base = { cluster: now, restarted: [], outOfMemory: [] };
  if (now.status !== old.status || now.since !== old.since) {
    if (now.status === 'failed') {
      const kind = old.status === 'starting' ? 'start-failed' : 'failed';
      return [{ ...base, kind }];
    }
    // A cluster that the user has stopped has no reason.
    if (now.status === 'closed' && now.reason) {
      return [{ ...base, kind: 'closed' }];
    }
  }
  if (now.pid !== old.pid) {
    return [];
  }
  const workers = now.state?.workers ?? [];
  const restarted = workers.flatMap(worker => {
    const pid = last.pids.get(worker.name);
    return pid !== undefined && worker.pid !== null && pid !== worker.pid
      ? [{ worker, pid }]
      : [];
  });
  const outOfMemory = workers.filter(
    ({ name, out_of_memory }) =>
      out_of_memory > (last.outOfMemory.get(name) ?? 0)
  );
  const events: IClusterEvent[] = [];
  if (restarted.length > 0) {
    events.push({ ...base, kind: 'workers-restarted', restarted });
  }
  if (outOfMemory.length > 0) {
    events.push({ ...base, kind: 'out-of-device-memory', outOfMemory });
  }
  return events;
}

/** The pids of the workers, including the last known ones of the same cluster. */
function pidsOf(
  cluster: ICluster,
  last: ILastState | undefined
): ILastState['pids'] {
  const pids = new Map(isSame(cluster, last) ? last?.pids : []);
  for (const { name, pid } of cluster.state?.workers ?? []) {
    if (pid !== null) {
      pids.set(name, pid);
    }
  }
  return pids;
}

/** The counts of the workers, including the last known ones of the same cluster. */
function outOfMemoryCounts(
  cluster: ICluster,
  last: ILastState | undefined
): ILastState['outOfMemory'] {
  const known = isSame(cluster, last) ? last?.outOfMemory : [];
  const workers = cluster.state?.workers ?? [];
  return new Map([
    ...(known ?? []),
    ...workers.map(({ name, out_of_memory }): [string, number] => [
      name,
      out_of_memory
    ])
  ]);
}

function isSame(cluster: ICluster, last: ILastState | undefined): boolean {
  return last?.cluster.pid === cluster.pid;
}

/** Why a worker process exited, according to the log of the scheduler; undefined if it was restarted on purpose. */
export function workerExitReason(
  log: string,
  pid: number
): 'out-of-memory' | 'lost' | undefined {
  // The messages of distributed's nanny.
  if (log.includes(`(pid=${pid}) exceeded`)) {
    return 'out-of-memory';
  }
  return log.includes(`Worker process ${pid} `) ? 'lost' : undefined;
}
