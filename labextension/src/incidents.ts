/**
 * What befalls clusters without anybody having asked for it.
 */
import { ICluster, IWorker } from './model/api';

export interface IIncident {
  kind: 'not-started' | 'failed' | 'closed' | 'workers-replaced';
  cluster: ICluster;
  /** The workers in whose place others are now, and the processes that they were. */
  replaced: { worker: IWorker; pid: number }[];
}

/** What was known of a cluster when it was last looked at. */
interface IKnown {
  cluster: ICluster;
  /** By the name of the worker, also of those that are away. */
  pids: Map<string, number>;
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
        pids: pidsOf(cluster, last)
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

function between({ cluster: old, pids }: IKnown, now: ICluster): IIncident[] {
  if (now.status !== old.status || now.since !== old.since) {
    if (now.status === 'failed') {
      const kind = old.status === 'starting' ? 'not-started' : 'failed';
      return [{ kind, cluster: now, replaced: [] }];
    }
    // What was asked for has no reason.
    if (now.status === 'closed' && now.reason) {
      return [{ kind: 'closed', cluster: now, replaced: [] }];
    }
  }
  if (now.pid !== old.pid) {
    return [];
  }
  const replaced = (now.state?.workers ?? []).flatMap(worker => {
    const pid = pids.get(worker.name);
    return pid !== undefined && worker.pid !== null && pid !== worker.pid
      ? [{ worker, pid }]
      : [];
  });
  return replaced.length > 0
    ? [{ kind: 'workers-replaced', cluster: now, replaced }]
    : [];
}

/** The processes of the workers; another supervisor has others. */
function pidsOf(cluster: ICluster, last: IKnown | undefined): IKnown['pids'] {
  const isSame = last?.cluster.pid === cluster.pid;
  const pids = new Map(isSame ? last?.pids : []);
  for (const { name, pid } of cluster.state?.workers ?? []) {
    if (pid !== null) {
      pids.set(name, pid);
    }
  }
  return pids;
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
