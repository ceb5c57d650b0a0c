/**
 * What is known of the GPUs and clusters, as long as somebody looks.
 */
import { DisposableDelegate, IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import { gpusOf } from '../format';
import { ICluster, IGpuList, ISample, IStreamMessage } from './api';
import { Connection, ConnectionStatus } from './connection';
import { Settings } from './settings';

/** The past of one GPU: times, and metrics of the same length with gaps as null. */
export interface IPast {
  times: number[];
  utilization: (number | null)[];
  memory: (number | null)[];
}

/**
 * The state that all views share; `changed` says that something in it is new.
 */
export class GpuDaskModel implements IDisposable {
  readonly settings = new Settings();

  /**
   * @param connection - brings what is known
   * @param _kept - how many seconds of metrics are kept
   */
  constructor(
    readonly connection: Connection,
    private readonly _kept: number = connection.history
  ) {
    connection.received.connect(this._onMessage, this);
    this.settings.changed.connect(this._emit, this);
    connection.statusChanged.connect(this._emit, this);
    document.addEventListener('visibilitychange', this._onVisibility);
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** That a cluster came, went, has another status, starts another worker, or is scaled; metrics alone do not count. */
  get clustersChanged(): ISignal<this, void> {
    return this._clustersChanged;
  }

  get status(): ConnectionStatus {
    return this.connection.status;
  }

  /** Null until the server has said. */
  get gpus(): IGpuList | null {
    return this._gpus;
  }

  /** By kernel id. */
  get clusters(): ReadonlyMap<string, ICluster> {
    return this._clusters;
  }

  /** The metrics of the past, oldest first. */
  get samples(): ISample[] {
    return this._samples;
  }

  /** When the newest metrics were read, by the server's clock. */
  get now(): number {
    return this._samples.at(-1)?.time ?? 0;
  }

  get isDisposed(): boolean {
    return this.connection.isDisposed;
  }

  /** The past metrics of a GPU. */
  past(uuid: string): IPast {
    const metrics = this._samples.map(sample => sample.gpus[uuid]);
    return {
      times: this._samples.map(sample => sample.time),
      utilization: metrics.map(each => each?.utilization ?? null),
      memory: metrics.map(each => each?.memory_used ?? null)
    };
  }

  /** Keep it up to date until the answer is disposed; metrics flow while at least one looks. */
  look(): IDisposable {
    const looker = new DisposableDelegate(() => {
      this._lookers.delete(looker);
      this._openOrClose();
    });
    this._lookers.add(looker);
    this._openOrClose();
    return looker;
  }

  /** Take an answer of the server at once, ahead of the stream. */
  put(cluster: ICluster): void {
    this._setClusters(new Map(this._clusters).set(cluster.kernel_id, cluster));
    this._changed.emit();
  }

  /** Take what the server has, where the stream does not tell. */
  putAll(clusters: ICluster[]): void {
    const isNew = this._setClusters(
      new Map(clusters.map(each => [each.kernel_id, each]))
    );
    if (isNew) {
      this._changed.emit();
    }
  }

  /** Forget a cluster that is gone, ahead of the stream. */
  remove(kernelId: string): void {
    const clusters = new Map(this._clusters);
    clusters.delete(kernelId);
    this._setClusters(clusters);
    this._changed.emit();
  }

  dispose(): void {
    if (!this.isDisposed) {
      document.removeEventListener('visibilitychange', this._onVisibility);
      this.connection.dispose();
      Signal.clearData(this.settings);
      Signal.clearData(this);
    }
  }

  private _onVisibility = (): void => this._openOrClose();

  private _openOrClose(): void {
    if (this._lookers.size > 0 && !document.hidden) {
      this.connection.open();
    } else {
      this.connection.close();
    }
  }

  private _emit(): void {
    this._changed.emit();
  }

  private _onMessage(_: Connection, message: IStreamMessage): void {
    const known = message.type === 'full' ? [] : this._clusters;
    const clusters = new Map(known);
    message.clusters.forEach(each => clusters.set(each.kernel_id, each));
    message.removed.forEach(kernelId => clusters.delete(kernelId));
    const isNew = this._setClusters(clusters);
    this._gpus = message.gpus ?? this._gpus;
    this._samples = newest(this._withNew(message), this._kept);
    if (isNew || message.type === 'full' || this._isDue(message.time)) {
      this._told = message.time;
      this._changed.emit();
    }
  }

  /** What is known already may come again; a clock that was set back begins anew. */
  private _withNew({ history }: IStreamMessage): ISample[] {
    const { now } = this;
    return (history.at(-1)?.time ?? now) < now
      ? history
      : [...this._samples, ...history.filter(sample => sample.time > now)];
  }

  /** Whether metrics of that moment are to be shown; the server's clock is not exact. */
  private _isDue(time: number): boolean {
    return time - this._told > this.settings.value.refresh - 0.5;
  }

  /** Returns whether one came, went, or has another status. */
  private _setClusters(clusters: ReadonlyMap<string, ICluster>): boolean {
    const old = this._clusters;
    this._clusters = clusters;
    const isNew = statusesOf(old) !== statusesOf(clusters);
    if (isNew) {
      this._clustersChanged.emit();
    }
    return isNew;
  }

  private _changed = new Signal<this, void>(this);
  private _clusters: ReadonlyMap<string, ICluster> = new Map();
  private _clustersChanged = new Signal<this, void>(this);
  private _gpus: IGpuList | null = null;
  private _lookers = new Set<IDisposable>();
  private _samples: ISample[] = [];
  private _told = 0;
}

function newest(samples: ISample[], seconds: number): ISample[] {
  const now = samples.at(-1)?.time ?? 0;
  return samples.filter(sample => sample.time > now - seconds);
}

function statusesOf(clusters: ReadonlyMap<string, ICluster>): string {
  return [...clusters.values()]
    .map(
      cluster =>
        `${cluster.kernel_id} ${cluster.status} ${cluster.workers_ready} ${gpusOf(cluster).length}`
    )
    .join();
}
