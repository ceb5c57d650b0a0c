/**
 * Metrics and states in words.
 */
import { TranslationBundle } from '@jupyterlab/translation';

import { Amount, ICluster, IGpu, IGpuHolder, IWorker } from './model/api';

/** Steps of 1024, or of 1000. */
export type Units = 'GiB' | 'GB';

const STEPS = {
  GiB: { size: 1024, names: ['B', 'KiB', 'MiB', 'GiB', 'TiB'] },
  GB: { size: 1000, names: ['B', 'kB', 'MB', 'GB', 'TB'] }
};

function powerOf(bytes: number, units: Units): number {
  const { size, names } = STEPS[units];
  const last = names.length - 1;
  return names.findIndex(
    (_, power) => power === last || bytes < size ** (power + 1)
  );
}

function inPower(bytes: number, power: number, units: Units): string {
  const size = bytes / STEPS[units].size ** power;
  return size.toFixed(size >= 10 || power === 0 || size === 0 ? 0 : 1);
}

/** Bytes for people: "62 GiB", "1.5 GiB", "512 MiB". */
export function formatBytes(bytes: number, units: Units = 'GiB'): string {
  const power = powerOf(bytes, units);
  return `${inPower(bytes, power, units)} ${STEPS[units].names[power]}`;
}

/** A part of a whole, both in the unit of the whole: "41 of 140 GiB". */
export function formatPart(
  part: number,
  whole: number,
  trans: TranslationBundle,
  units: Units = 'GiB'
): string {
  const power = powerOf(whole, units);
  return trans.__(
    '%1 of %2',
    inPower(part, power, units),
    formatBytes(whole, units)
  );
}

/** A share in percent, between 0 and 100. */
export function percentOf(part: number, whole: number): number {
  return whole > 0 ? Math.min(100, Math.max(0, (100 * part) / whole)) : 0;
}

/** Bytes, a fraction, or none, as a user writes them. */
export function formatAmount(amount: Amount, units: Units = 'GiB'): string {
  if (amount === null) {
    return 'none';
  }
  return typeof amount === 'number' && amount > 1
    ? formatBytes(amount, units)
    : String(amount);
}

/** What a GPU is called where there is little room: "H200". */
export function shortName(gpu: IGpu): string {
  return gpu.name.replace(/^NVIDIA\s+/, '');
}

/** The sum of what can be had. */
export function sum(metrics: (number | null | undefined)[]): number {
  return metrics.reduce<number>((total, each) => total + (each ?? 0), 0);
}

/** Who holds a GPU; a notebook may have another name now than when it took it. */
export function holderName(
  holder: IGpuHolder,
  clusters: ReadonlyMap<string, ICluster>
): string {
  return clusters.get(holder.kernel_id ?? '')?.name ?? holder.name;
}

/** What a worker is called: by its GPU, where it has one. */
export function nameOf(worker: IWorker, trans: TranslationBundle): string {
  return worker.gpu_index === null
    ? trans.__('Worker %1', worker.name)
    : trans.__('GPU %1', worker.gpu_index);
}

/** What a worker has moved away, in bytes. */
export function spilledBy(
  worker: Pick<IWorker, 'spilled_to_host' | 'spilled_to_disk'>
): number {
  return sum([worker.spilled_to_host, worker.spilled_to_disk]);
}

/** The tasks of a cluster: those that run, and those that do not yet. */
export function tasksOf(cluster: ICluster): {
  running: number;
  waiting: number;
} {
  const { workers = [], tasks_unfinished: unfinished = 0 } =
    cluster.state ?? {};
  const running = sum(workers.map(worker => worker.executing));
  return { running, waiting: Math.max(0, unfinished - running) };
}

/** The size of the results that clients keep on the workers, in bytes. */
export function heldBy(cluster: ICluster): number {
  return cluster.status === 'ready' ? (cluster.state?.held ?? 0) : 0;
}

/** What is lost when a cluster is closed; empty if that is nothing. */
export function lossOf(
  cluster: ICluster,
  units: Units,
  trans: TranslationBundle
): string {
  const { running, waiting } = tasksOf(cluster);
  const tasks = running + waiting;
  const held = heldBy(cluster);
  return [
    tasks > 0 &&
      trans._n('%1 task is not done.', '%1 tasks are not done.', tasks),
    held > 0 &&
      trans.__(
        'Its workers hold %1 of results, which are lost.',
        formatBytes(held, units)
      ),
    tasks > 0 && held === 0 && trans.__('All results on its workers are lost.')
  ]
    .filter(Boolean)
    .join(' ');
}

/** The UUIDs of the GPUs that have a worker: after it was scaled, fewer than a cluster holds. */
export function gpusOf(cluster: ICluster): string[] {
  const used = cluster.status === 'ready' ? (cluster.state?.gpus ?? []) : [];
  return used.length > 0 ? used : cluster.gpus;
}

/** What a cluster is for the eye: a kind for the style, and words for everybody. */
export interface ISummary {
  kind: 'off' | 'starting' | 'ready' | 'stand-in' | 'closing' | 'failed';
  /** The state alone: "ready". */
  state: string;
  /** What it runs on: "2 × H200"; empty before that is known. */
  engine: string;
  /** The most telling of the two. */
  short: string;
}

/** Say what a kernel's cluster is; undefined is none. */
export function summarize(
  cluster: ICluster | undefined,
  gpus: IGpu[],
  trans: TranslationBundle
): ISummary {
  if (!cluster) {
    return plain('off', trans.__('off'));
  }
  const engine = engineOf(cluster, gpus, trans);
  switch (cluster.status) {
    case 'starting': {
      const { workers_ready: ready, workers_total: total } = cluster;
      const state =
        total > 0
          ? trans.__('starting %1 of %2', ready, total)
          : trans.__('starting');
      return { ...plain('starting', state), engine };
    }
    case 'ready':
      return {
        kind: cluster.engine === 'cpu' ? 'stand-in' : 'ready',
        state: trans.__('ready'),
        engine,
        short: engine
      };
    case 'closing':
      return { ...plain('closing', trans.__('stopping')), engine };
    case 'closed':
      return plain('off', trans.__('stopped'));
    case 'failed':
      return plain('failed', trans.__('failed'));
  }
}

function plain(kind: ISummary['kind'], state: string): ISummary {
  return { kind, state, engine: '', short: state };
}

function engineOf(
  cluster: ICluster,
  gpus: IGpu[],
  trans: TranslationBundle
): string {
  if (cluster.engine === 'cpu') {
    return trans.__('CPU stand-in');
  }
  const held = cluster.gpus.length;
  if (held === 0) {
    return '';
  }
  const used = gpusOf(cluster).length;
  const count = used < held ? trans.__('%1 of %2', used, held) : `${held}`;
  const names = new Set(
    gpus.filter(each => cluster.gpus.includes(each.uuid)).map(shortName)
  );
  const [name] = names;
  return names.size === 1
    ? trans.__('%1 × %2', count, name)
    : trans._n('%2 GPU', '%2 GPUs', held, count);
}
