/**
 * What befalls clusters without anybody having asked for it.
 */
import { ICluster, IWorker } from '../model/api';

export interface IIncident {
  kind:
    | 'not-started'
    | 'failed'
    | 'closed'
    | 'workers-replaced'
    | 'out-of-device-memory';
  cluster: ICluster;
  /** The workers in whose place others are now, and the processes that they were. */
  replaced: { worker: IWorker; pid: number }[];
  /** The workers on which tasks have failed for want of device memory. */
  short: IWorker[];
}

/** What was known of a cluster when it was last looked at. */
interface IKnown {
  cluster: ICluster;
  /** By the name of the worker, also of those that are away. */
  pids: Map<string, number>;
  /** How many tasks failed on each for want of device memory, by its name. */
  out_of_memory: Map<string, number>;
}

/**
 * Compares what is with what was; what was so when the page came is no news.
 */
export class IncidentFinder {
  /** What has happened since the last call. */
  find(clusters: Iterable<ICluster>): IIncident[] {
    const known = new Map<string, IKnown>();
    const incidents: IIncident[] = [];
    for (const cluster of clusters) {
      const last = this._known.get(cluster.kernel_id);
      known.set(cluster.kernel_id, {
        cluster,
        pids: pidsOf(cluster, last),
        out_of_memory: shortagesOf(cluster, last)
      });
      if (last) {
        incidents.push(...between(last, cluster));
      }
    }
    this._known = known;
    return incidents;
  }

  private _known = new Map<string, IKnown>();
}

function between(last: IKnown, now: ICluster): IIncident[] {
  const { cluster: old } = last;
  const incident = { cluster: now, replaced: [], short: [] };
  if (now.status !== old.status || now.since !== old.since) {
    if (now.status === 'failed') {
      const kind = old.status === 'starting' ? 'not-started' : 'failed';
      return [{ ...incident, kind }];
    }
    // What was asked for has no reason.
    if (now.status === 'closed' && now.reason) {
      return [{ ...incident, kind: 'closed' }];
    }
  }
  if (now.pid !== old.pid) {
    return [];
  }
  const workers = now.state?.workers ?? [];
  const replaced = workers.flatMap(worker => {
    const pid = last.pids.get(worker.name);
    return pid !== undefined && worker.pid !== null && pid !== worker.pid
      ? [{ worker, pid }]
      : [];
  });
  const short = workers.filter(
    ({ name, out_of_memory }) =>
      out_of_memory > (last.out_of_memory.get(name) ?? 0)
  );
  const incidents: IIncident[] = [];
  if (replaced.length > 0) {
    incidents.push({ ...incident, kind: 'workers-replaced', replaced });
  }
  if (short.length > 0) {
    incidents.push({ ...incident, kind: 'out-of-device-memory', short });
  }
  return incidents;
}

/** The processes of the workers; another supervisor has others. */
function pidsOf(cluster: ICluster, last: IKnown | undefined): IKnown['pids'] {
  const pids = new Map(isSame(cluster, last) ? last?.pids : []);
  for (const { name, pid } of cluster.state?.workers ?? []) {
    if (pid !== null) {
      pids.set(name, pid);
    }
  }
  return pids;
}

/** Of the workers that are away too; another supervisor counts anew. */
function shortagesOf(
  cluster: ICluster,
  last: IKnown | undefined
): IKnown['out_of_memory'] {
  const known = isSame(cluster, last) ? last?.out_of_memory : [];
  const workers = cluster.state?.workers ?? [];
  return new Map([
    ...(known ?? []),
    ...workers.map(({ name, out_of_memory }): [string, number] => [
      name,
      out_of_memory
    ])
  ]);
}

function isSame(cluster: ICluster, last: IKnown | undefined): boolean {
  return last?.cluster.pid === cluster.pid;
}

/** How a worker ended by the log of its scheduler; undefined if somebody has ended it on purpose. */
export function endOfWorker(
  log: string,
  pid: number
): 'out-of-memory' | 'lost' | undefined {
  // In the words of distributed's nanny.
  if (log.includes(`(pid=${pid}) exceeded`)) {
    return 'out-of-memory';
  }
  return log.includes(`Worker process ${pid} `) ? 'lost' : undefined;
}
