/**
 * Summaries of clusters: state, names, GPUs and results.
 */
import { TranslationBundle } from '@jupyterlab/translation';

import { ICluster, IGpu } from '../model/api';

/** The clusters, where those of notebooks with the same name, or with that of one of these paths, show their folders. */
export function withDistinctNames(
  clusters: ReadonlyMap<string, ICluster>,
  otherPaths: readonly string[] = []
): ReadonlyMap<string, ICluster> {
  const counts = new Map<string, number>();
  const count = (name: string): unknown =>
    counts.set(name, (counts.get(name) ?? 0) + 1);
  clusters.forEach(({ name }) => count(name));
  otherPaths.forEach(path => count(endOf(path, 1)));
  return new Map(
    [...clusters].map(([kernelId, cluster]) => {
      if ((counts.get(cluster.name) ?? 0) < 2) {
        return [kernelId, cluster];
      }
      const others = [...clusters.values()]
        .filter(other => other !== cluster)
        .flatMap(({ notebooks }) => notebooks);
      const names = cluster.notebooks.map(path =>
        distinctName(path, [...others, ...otherPaths])
      );
      const name = names.join(', ') || cluster.name;
      return [kernelId, name === cluster.name ? cluster : { ...cluster, name }];
    })
  );
}

/** The file name of a path, with as many of its folders as distinguish it from the others. */
export function distinctName(path: string, others: readonly string[]): string {
  const length = path.split('/').length;
  const isTaken = (parts: number): boolean =>
    others.some(
      other => other !== path && endOf(other, parts) === endOf(path, parts)
    );
  let parts = 1;
  while (parts < length && isTaken(parts)) {
    parts += 1;
  }
  return endOf(path, parts);
}

/** The last parts of a path. */
function endOf(path: string, parts: number): string {
  return path.split('/').slice(-parts).join('/');
}

/** The size of the results that clients keep on the workers, in bytes. */
export function resultBytes(cluster: ICluster): number {
  return cluster.status === 'ready' ? (cluster.state?.held ?? 0) : 0;
}

/** The UUIDs of the GPUs that have a worker: after scaling down, fewer than the cluster holds. */
export function activeGpus(cluster: ICluster): string[] {
  const used = cluster.status === 'ready' ? (cluster.state?.gpus ?? []) : [];
  return used.length > 0 ? used : cluster.gpus;
}

/** The state of a cluster, as every view shows it. */
export interface ISummary {
  /** Selects the icon and the style. */
  kind: 'off' | 'starting' | 'ready' | 'stand-in' | 'closing' | 'failed';
  /** The state: "ready". */
  state: string;
  /** The hardware: "2 × H200"; empty if not known yet. */
  engine: string;
  /** The hardware of a cluster that is ready, else the state. */
  short: string;
}

/** Summarize the cluster of a kernel, which may have none. */
export function summarize(
  cluster: ICluster | undefined,
  gpus: IGpu[],
  trans: TranslationBundle
): ISummary {
  if (!cluster) {
    return withoutEngine('off', trans.__('off'));
  }
  const engine = engineName(cluster, gpus, trans);
  switch (cluster.status) {
    case 'starting': {
      const { workers_ready: ready, workers_total: total } = cluster;
      const state =
        total > 0
          ? trans.__('starting %1 of %2', ready, total)
          : trans.__('starting');
      return { ...withoutEngine('starting', state), engine };
    }
    case 'ready':
      return {
        kind:
          cluster.engine === 'cpu' && !cluster.joined ? 'stand-in' : 'ready',
        state: cluster.joined ? trans.__('connected') : trans.__('ready'),
        engine,
        short: engine
      };
    case 'closing':
      return { ...withoutEngine('closing', trans.__('stopping')), engine };
    case 'closed':
      return withoutEngine('off', trans.__('stopped'));
    case 'failed':
      return withoutEngine('failed', trans.__('failed'));
  }
}

function withoutEngine(kind: ISummary['kind'], state: string): ISummary {
  return { kind, state, engine: '', short: state };
}

/** The CPU, or the number and model of the GPUs. */
function engineName(
  cluster: ICluster,
  gpus: IGpu[],
  trans: TranslationBundle
): string {
  if (cluster.joined) {
    return cluster.joined;
  }
  if (cluster.engine === 'cpu') {
    return trans.__('CPU stand-in');
  }
  const held = cluster.gpus.length;
  if (held === 0) {
    return '';
  }
  const used = activeGpus(cluster).length;
  const count = used < held ? trans.__('%1 of %2', used, held) : `${held}`;
  const names = new Set(
    gpus.filter(each => cluster.gpus.includes(each.uuid)).map(modelName)
  );
  const [name] = names;
  return names.size === 1
    ? trans.__('%1 × %2', count, name)
    : trans._n('%2 GPU', '%2 GPUs', held, count);
}

/** The model of a GPU without its vendor: "H200". */
function modelName(gpu: IGpu): string {
  return gpu.name.replace(/^NVIDIA\s+/, '');
}
