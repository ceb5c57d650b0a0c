/**
 * The past metrics as lines, which grow at their end: nothing that is known already is read again.
 */
import { spilledBy } from '../format';
import { IGpuMetrics, ISample, IWorkerMetrics } from '../model/api';

/** A metric for each moment, or null where it is not known. */
export type Series = (number | null)[];

/** What is measured. */
export type MetricId =
  'busy' | 'memory' | 'nvlink' | 'pcie' | 'host' | 'pool' | 'spilled' | 'tasks';

type Metrics = { [Id in MetricId]?: number | null };

/** Without a sample for so many seconds a line is broken. */
const GAP = 4;
/** Tasks a second are those of the last seconds: workers report in bursts. */
const RATE_WINDOW = 5;
/** The oldest moments go when there are so many of them, in seconds, for to move all lines takes a while. */
const SPARE = 60;

/** The lines of one GPU, or of one worker of a cluster. */
export interface ITrack {
  /** Whose worker it is; empty for a GPU. */
  kernelId: string;
  /** UUID of the GPU, or the worker's name in Dask. */
  id: string;
  /** Those of which a metric was ever known. */
  series: { [Id in MetricId]?: Series };
}

interface IOwnTrack extends ITrack {
  lastSeen: number;
  rate: TaskRate;
}

/** How fast a count grows, by the second; a count that falls began anew. */
export class TaskRate {
  /** The rate at that time, or null where it is not known yet. */
  next(time: number, count: number | null): number | null {
    this._recent = this._recent.filter(each => time - each.time <= RATE_WINDOW);
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

export class Past {
  /**
   * @param _length - how many seconds are kept
   */
  constructor(private readonly _length: number) {}

  /** The moments, in seconds since the epoch, oldest first; those of each line are the same. */
  get times(): number[] {
    return this._times;
  }

  /** By UUID. */
  get gpus(): ReadonlyMap<string, ITrack> {
    return this._gpus;
  }

  /** By kernel id and name. */
  get workers(): ReadonlyMap<string, ITrack> {
    return this._workers;
  }

  /** Grows when somebody comes or goes. */
  get generation(): number {
    return this._generation;
  }

  /** A line of which nothing is known. */
  get nothing(): Series {
    return this._nothing;
  }

  /** Whether what comes is put aside. */
  get isPaused(): boolean {
    return this._waiting !== null;
  }

  /** Add what is newer than what is known. */
  take(samples: ISample[]): void {
    if (this._waiting) {
      this._waiting = newest([...this._waiting, ...samples], this._length);
    } else {
      samples.forEach(sample => this._add(sample));
      this._forget();
    }
  }

  /** Stay as it is until `resume`, which takes what came meanwhile. */
  pause(): void {
    this._waiting ??= [];
  }

  resume(): void {
    const samples = this._waiting ?? [];
    this._waiting = null;
    this.take(samples);
  }

  private _add({ time, gpus, workers }: ISample): void {
    const last = this._times.at(-1) ?? time - 1;
    if (time <= last) {
      return;
    }
    if (time - last > GAP) {
      this._addMoment(last + 1);
    }
    this._addMoment(time);
    for (const [uuid, metrics] of Object.entries(gpus)) {
      const track = this._track(this._gpus, uuid, '', uuid, time);
      this._fill(track, ofGpu(metrics));
    }
    for (const [kernelId, byName] of Object.entries(workers)) {
      for (const [name, metrics] of Object.entries(byName)) {
        const key = `${kernelId} ${name}`;
        const track = this._track(this._workers, key, kernelId, name, time);
        const tasks = track.rate.next(time, metrics.executed);
        this._fill(track, { tasks, ...ofWorker(metrics) });
      }
    }
  }

  /** A moment of which nothing is known yet. */
  private _addMoment(time: number): void {
    this._times.push(time);
    this._nothing.push(null);
    this._eachSeries(series => series.push(null));
  }

  /** Set the metrics of the newest moment. */
  private _fill({ series }: ITrack, metrics: Metrics): void {
    const last = this._times.length - 1;
    for (const id in metrics) {
      const value = metrics[id as MetricId];
      if (typeof value === 'number') {
        (series[id as MetricId] ??= [...this._nothing])[last] = value;
      }
    }
  }

  private _track(
    tracks: Map<string, IOwnTrack>,
    key: string,
    kernelId: string,
    id: string,
    time: number
  ): IOwnTrack {
    let track = tracks.get(key);
    if (!track) {
      const rate = new TaskRate();
      track = { kernelId, id, series: {}, lastSeen: time, rate };
      tracks.set(key, track);
      this._generation += 1;
    }
    track.lastSeen = time;
    return track;
  }

  /** Lose what is too old, and whoever has not been seen since. */
  private _forget(): void {
    const oldest = (this._times.at(-1) ?? 0) - this._length;
    if ((this._times.at(0) ?? 0) > oldest - SPARE) {
      return;
    }
    const count = this._times.findIndex(time => time > oldest);
    this._times.splice(0, count);
    this._nothing.splice(0, count);
    this._eachSeries(series => series.splice(0, count));
    for (const tracks of [this._gpus, this._workers]) {
      for (const [key, { lastSeen }] of tracks) {
        if (lastSeen <= oldest) {
          tracks.delete(key);
          this._generation += 1;
        }
      }
    }
  }

  private _eachSeries(change: (series: Series) => void): void {
    for (const tracks of [this._gpus, this._workers]) {
      for (const { series } of tracks.values()) {
        Object.values(series).forEach(change);
      }
    }
  }

  private _generation = 0;
  private readonly _gpus = new Map<string, IOwnTrack>();
  private readonly _nothing: Series = [];
  private readonly _times: number[] = [];
  private _waiting: ISample[] | null = null;
  private readonly _workers = new Map<string, IOwnTrack>();
}

function ofGpu(metrics: IGpuMetrics): Metrics {
  return {
    busy: metrics.utilization,
    memory: metrics.memory_used,
    nvlink: metrics.nvlink,
    pcie: metrics.pcie
  };
}

function ofWorker(metrics: IWorkerMetrics): Metrics {
  const isSpillKnown =
    metrics.spilled_to_host !== null || metrics.spilled_to_disk !== null;
  return {
    pool: metrics.pool_used,
    spilled: isSpillKnown ? spilledBy(metrics) : null,
    host: metrics.memory
  };
}

function newest(samples: ISample[], seconds: number): ISample[] {
  const now = samples.at(-1)?.time ?? 0;
  return samples.filter(sample => sample.time > now - seconds);
}
