/**
 * The metrics of the history as arrays for the charts. New samples are appended in place.
 */
import { spilledBytes } from '../cluster/snapshot';
import { ISample, IWorkerMetrics } from '../model/api';

/** The values of a metric, one for each time; null if not available. */
export type Series = (number | null)[];

/** The metrics of GPUs, workers and the machine. */
export type MetricId =
  | 'busy'
  | 'memory'
  | 'nvlink'
  | 'pcie'
  | 'host'
  | 'pool'
  | 'spilled'
  | 'tasks'
  | 'cpu'
  | 'disk'
  | 'network';

/** The key and the id of the machine in its map. */
export const MACHINE = 'machine';

type Metrics = { [Id in MetricId]?: number | null };

/** Lines are broken where this many samples are missing. */
const GAP = 4;
/** The rate of tasks is the average of this many samples, because workers report in bursts. */
const RATE_WINDOW = 5;
/** Old samples are removed in batches of this many seconds, because that moves all arrays. */
const REMOVAL_BATCH = 60;

/** The series of a GPU, of a worker or of the machine. */
export interface ISourceHistory {
  /** The kernel of the worker's cluster; else empty. */
  kernelId: string;
  /** The UUID of the GPU, the name of the worker in Dask, or `MACHINE`. */
  id: string;
  /** The series of the metrics that are known. */
  series: { [Id in MetricId]?: Series };
  lastSeen: number;
  rate: TaskRate;
}

/** Computes the rate of a counter. A counter that decreases was reset. */
export class TaskRate {
  /**
   * @param _step - the distance of the samples, in seconds
   */
  constructor(private readonly _step = 1) {}

  /** Add a value; returns the rate per second, or null if it is not known yet. */
  next(time: number, count: number | null): number | null {
    this._recent = this._recent.filter(
      each => time - each.time <= RATE_WINDOW * this._step
    );
    if (count === null) {
      return null;
    }
    const first = this._recent.at(0);
    this._recent.push({ time, count });
    return first
      ? Math.max(0, count - first.count) / (time - first.time)
      : null;
  }

  private _recent: { time: number; count: number }[] = [];
}

/** Stores the metrics of the last minutes. */
export class HistoryStore {
  /**
   * @param _length - how many seconds to keep
   * @param _step - the distance of the samples, in seconds
   */
  constructor(
    private readonly _length: number,
    private readonly _step = 1
  ) {}

  /** The times of all series, in seconds since the epoch, oldest first. */
  readonly times: number[] = [];
  /** The GPUs by UUID. */
  readonly gpus = new Map<string, ISourceHistory>();
  /** The workers by kernel id and name. */
  readonly workers = new Map<string, ISourceHistory>();
  /** The machine itself, by `MACHINE`. */
  readonly machine = new Map<string, ISourceHistory>();
  /** A series without values. */
  readonly empty: Series = [];
  /** Increases when a GPU or worker is added or removed. */
  generation = 0;

  /** Add the samples that are newer than the last one. */
  add(samples: ISample[]): void {
    samples.forEach(sample => this._addSample(sample));
    this._removeOld();
  }

  private _addSample({ time, gpus, workers, machine }: ISample): void {
    const last = this.times.at(-1) ?? time - this._step;
    if (time <= last) {
      return;
    }
    if (time - last > GAP * this._step) {
      this._addTime(last + this._step);
    }
    this._addTime(time);
    if (machine) {
      const history = this._getHistory(this.machine, MACHINE, time);
      const { cpu, memory_used: memory, disk, network } = machine;
      this._setValues(history, { cpu, memory, disk, network });
    }
    for (const [uuid, metrics] of Object.entries(gpus)) {
      const history = this._getHistory(this.gpus, uuid, time);
      const { utilization: busy, memory_used: memory, nvlink, pcie } = metrics;
      this._setValues(history, { busy, memory, nvlink, pcie });
    }
    for (const [kernelId, byName] of Object.entries(workers)) {
      for (const [name, metrics] of Object.entries(byName)) {
        const history = this._getHistory(this.workers, name, time, kernelId);
        const tasks = history.rate.next(time, metrics.executed);
        this._setValues(history, { tasks, ...workerValues(metrics) });
      }
    }
  }

  /** Add a time without values. */
  private _addTime(time: number): void {
    this.times.push(time);
    this.empty.push(null);
    this._eachSeries(series => series.push(null));
  }

  /** Set the values of the newest time. */
  private _setValues({ series }: ISourceHistory, metrics: Metrics): void {
    const last = this.times.length - 1;
    for (const id in metrics) {
      const value = metrics[id as MetricId];
      if (typeof value === 'number') {
        (series[id as MetricId] ??= [...this.empty])[last] = value;
      }
    }
  }

  private _getHistory(
    histories: Map<string, ISourceHistory>,
    id: string,
    time: number,
    kernelId = ''
  ): ISourceHistory {
    const key = kernelId ? `${kernelId} ${id}` : id;
    let history = histories.get(key);
    if (!history) {
      const rate = new TaskRate(this._step);
      history = { kernelId, id, series: {}, lastSeen: time, rate };
      histories.set(key, history);
      this.generation += 1;
    }
    history.lastSeen = time;
    return history;
  }

  /** Remove old samples, and the GPUs and workers that are in none of the others. */
  private _removeOld(): void {
    const oldest = (this.times.at(-1) ?? 0) - this._length;
    if ((this.times.at(0) ?? 0) > oldest - REMOVAL_BATCH) {
      return;
    }
    const count = this.times.findIndex(time => time > oldest);
    this.times.splice(0, count);
    this.empty.splice(0, count);
    this._eachSeries(series => series.splice(0, count));
    for (const histories of this._all) {
      for (const [key, { lastSeen }] of histories) {
        if (lastSeen <= oldest) {
          histories.delete(key);
          this.generation += 1;
        }
      }
    }
  }

  private _eachSeries(change: (series: Series) => void): void {
    for (const histories of this._all) {
      for (const { series } of histories.values()) {
        Object.values(series).forEach(change);
      }
    }
  }

  private readonly _all = [this.gpus, this.workers, this.machine];
}

function workerValues(metrics: IWorkerMetrics): Metrics {
  const { pool_used: pool, memory: host, cpu } = metrics;
  const isSpillingKnown =
    metrics.spilled_to_host !== null || metrics.spilled_to_disk !== null;
  return {
    pool,
    spilled: isSpillingKnown ? spilledBytes(metrics) : null,
    host,
    cpu
  };
}
