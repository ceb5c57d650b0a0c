/**
 * The state of the GPUs and clusters.
 */
import { DisposableDelegate, IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';

import { withDistinctNames } from '../cluster/names';
import { activeGpus } from '../cluster/snapshot';
import { ICluster, IGpuList, ISample, isShared, IStreamMessage } from './api';
import { Connection, ConnectionStatus } from './connection';
import { Settings } from './settings';

/** A recent metric of a GPU: arrays of one length, null where it is not available. */
export interface IGpuHistory {
  times: number[];
  metrics: (number | null)[];
}

/**
 * The model of all views. It is connected to the server while it has a subscriber and the page is visible, or its title
 * shows the progress of the current notebook.
 */
export class GpuDaskModel implements IDisposable {
  /**
   * @param connection - the connection to the server
   * @param _historySeconds - how many seconds of metrics to keep
   * @param settings - the user's settings
   */
  constructor(
    readonly connection: Connection,
    private readonly _historySeconds: number = connection.history,
    readonly settings: Settings = new Settings()
  ) {
    connection.received.connect(this._onMessage, this);
    this.settings.changed.connect(this._emit, this);
    connection.statusChanged.connect(this._emit, this);
    document.addEventListener('visibilitychange', this._onVisibility);
  }

  /** Emitted when the views must be rendered again. */
  readonly changed = new Signal<this, void>(this);
  /** Emitted when a cluster is added, removed or scaled, or its status changes; not when only metrics change. */
  readonly clustersChanged = new Signal<this, void>(this);

  get status(): ConnectionStatus {
    return this.connection.status;
  }

  /** Whether the state is not that of now. */
  get isStale(): boolean {
    return this.connection.isStale;
  }

  /** Null until the first message. */
  gpus: IGpuList | null = null;
  /** The clusters by kernel id; those of notebooks with the same name show their folders. */
  clusters: ReadonlyMap<string, ICluster> = new Map();
  /** The recent metrics, oldest first. */
  samples: ISample[] = [];
  /** The host memory of the machine in bytes; null if not known. */
  memoryTotal: number | null = null;

  /**
   * The number of the cluster of a kernel among several, from 0, which it keeps; null if it is the only one, or not of
   * this server. Kernels that are connected to a shared cluster have its number.
   */
  numberOf(kernelId: string): number | null {
    const number = this._numbers.indexOf(this.ownerOf(kernelId));
    const owners = new Set(
      [...this.clusters.keys()].map(id => this.ownerOf(id))
    );
    return number < 0 || owners.size < 2 ? null : number;
  }

  /** The kernel, or the shared cluster that it is connected to. */
  ownerOf(kernelId: string): string {
    const joined = this.clusters.get(kernelId)?.joined;
    const clusters = joined ? [...this.clusters.values()] : [];
    return (
      clusters.find(
        ({ kernel_id: id, name }) => isShared(id) && name === joined
      )?.kernel_id ?? kernelId
    );
  }

  /** The server's time of the newest metrics. */
  get now(): number {
    return this.samples.at(-1)?.time ?? 0;
  }

  get isDisposed(): boolean {
    return this.connection.isDisposed;
  }

  /** A recent metric of a GPU. */
  gpuHistory(uuid: string, name: 'utilization' | 'memory_used'): IGpuHistory {
    return {
      times: this.samples.map(sample => sample.time),
      metrics: this.samples.map(sample => sample.gpus[uuid]?.[name] ?? null)
    };
  }

  /** Subscribe to updates until the returned object is disposed. */
  subscribe(): IDisposable {
    const subscriber = new DisposableDelegate(() => {
      this._subscribers.delete(subscriber);
      this._openOrClose();
    });
    this._subscribers.add(subscriber);
    this._openOrClose();
    return subscriber;
  }

  /** Update a cluster from a response, before the stream reports it. */
  updateCluster(cluster: ICluster): void {
    this._replaceClusters(
      new Map(this._received).set(cluster.kernel_id, cluster)
    );
    this.changed.emit();
  }

  /** Replace the clusters, for views that show them without the stream. */
  setClusters(clusters: ICluster[]): void {
    const isChanged = this._replaceClusters(
      new Map(clusters.map(each => [each.kernel_id, each]))
    );
    if (isChanged) {
      this.changed.emit();
    }
  }

  /** Remove a cluster that was closed, before the stream reports it. */
  removeCluster(kernelId: string): void {
    const clusters = new Map(this._received);
    clusters.delete(kernelId);
    this._replaceClusters(clusters);
    this.changed.emit();
  }

  /** Set the current notebook: clusters of other notebooks with its name show their folders. */
  setCurrent(kernelId: string | null, path: string): void {
    const old = this.clusters;
    this._current = { kernelId, path };
    this._replaceClusters(this._received);
    if (namesKey(old) !== namesKey(this.clusters)) {
      this.clustersChanged.emit();
      this.changed.emit();
    }
  }

  dispose(): void {
    if (!this.isDisposed) {
      document.removeEventListener('visibilitychange', this._onVisibility);
      this.connection.dispose();
      Signal.clearData(this);
    }
  }

  private _onVisibility = (): void => this._openOrClose();

  private _openOrClose(): void {
    const isWorking = this.clusters.get(this._current.kernelId ?? '')?.state
      ?.tasks_unfinished;
    if (this._subscribers.size > 0 && (!document.hidden || isWorking)) {
      this.connection.open();
    } else {
      this.connection.close();
    }
  }

  private _emit(): void {
    this.changed.emit();
  }

  private _onMessage(_: Connection, message: IStreamMessage): void {
    const clusters = new Map(message.type === 'full' ? [] : this._received);
    message.clusters.forEach(each => clusters.set(each.kernel_id, each));
    message.removed.forEach(kernelId => clusters.delete(kernelId));
    const isChanged = this._replaceClusters(clusters);
    this.gpus = message.gpus ?? this.gpus;
    this.memoryTotal = message.memory_total ?? this.memoryTotal;
    this.samples = newest(this._appendNew(message), this._historySeconds);
    if (isChanged || message.type === 'full' || this._isDue(message.time)) {
      this._lastEmit = message.time;
      this.changed.emit();
    }
    if (document.hidden) {
      this._openOrClose();
    }
  }

  /** The samples with the new ones; all are replaced if the server's clock was set back. */
  private _appendNew({ history }: IStreamMessage): ISample[] {
    const { now } = this;
    return (history.at(-1)?.time ?? now) < now
      ? history
      : [...this.samples, ...history.filter(sample => sample.time > now)];
  }

  /** Whether the refresh interval is over, within the accuracy of the server's ticks. */
  private _isDue(time: number): boolean {
    const { refresh } = this.settings.value;
    return time - this._lastEmit > Math.max(refresh - 0.5, refresh / 2);
  }

  /** Replace the clusters; returns whether `clustersChanged` was emitted. */
  private _replaceClusters(clusters: ReadonlyMap<string, ICluster>): boolean {
    const old = this.clusters;
    this._received = clusters;
    const { kernelId, path } = this._current;
    const hasCluster = clusters.has(kernelId ?? '');
    this.clusters = withDistinctNames(
      clusters,
      path && !hasCluster ? [path] : []
    );
    this._numbers = this._numbers.map(id => (clusters.has(id) ? id : ''));
    for (const id of clusters.keys()) {
      if (this.ownerOf(id) === id && !this._numbers.includes(id)) {
        const free = this._numbers.indexOf('');
        this._numbers[free < 0 ? this._numbers.length : free] = id;
      }
    }
    const isChanged = statusKey(old) !== statusKey(clusters);
    if (isChanged) {
      this.clustersChanged.emit();
    }
    return isChanged;
  }

  /** The current notebook, which may have no cluster. */
  private _current: { kernelId: string | null; path: string } = {
    kernelId: null,
    path: ''
  };
  /** The clusters with the names that the server has sent. */
  private _received: ReadonlyMap<string, ICluster> = new Map();
  /** The kernels by the numbers of their clusters; empty where a number is free. */
  private _numbers: string[] = [];
  private _subscribers = new Set<IDisposable>();
  private _lastEmit = 0;
}

function newest(samples: ISample[], seconds: number): ISample[] {
  const now = samples.at(-1)?.time ?? 0;
  return samples.filter(sample => sample.time > now - seconds);
}

/** A text that differs when `clustersChanged` must be emitted. */
function statusKey(clusters: ReadonlyMap<string, ICluster>): string {
  return [...clusters.values()]
    .map(
      cluster =>
        `${cluster.kernel_id} ${cluster.status} ${cluster.workers_ready} ${activeGpus(cluster).length}`
    )
    .join();
}

/** A text that differs when the names of clusters differ. */
function namesKey(clusters: ReadonlyMap<string, ICluster>): string {
  return [...clusters.values()].map(({ name }) => name).join();
}
