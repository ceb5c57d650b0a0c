/**
 * Shows notifications for the events of clusters.
 */
import { Notification } from '@jupyterlab/apputils';
import { IDisposable } from '@lumino/disposable';

import { isOffered } from '../cluster/offered';
import { workerName, workerNames } from '../cluster/names';
import { resultBytes, snapshot } from '../cluster/snapshot';
import { closingTime } from '../cluster/warnings';
import { CommandIDs } from '../commandIDs';
import { formatBytes } from '../format';
import { ICluster } from '../model/api';
import { timesIn } from '../times';
import { IGpuDask } from '../tokens';
import { ClusterEventDetector, IClusterEvent, WorkerId } from './clusterEvents';
import { fitted } from './fitted';

/** Shows at most one notification for each cluster and subject, and dismisses it when the cluster has changed. */
export class Notifier implements IDisposable {
  /**
   * @param gpuDask - the shared service
   * @param _isPanelVisible - whether the panel is visible, which shows why a cluster has ended
   * @param known - the clusters in states that are no events
   */
  constructor(
    private readonly _gpuDask: IGpuDask,
    private readonly _isPanelVisible: () => boolean,
    known: Iterable<ICluster> = []
  ) {
    this._detector.detect(known);
    _gpuDask.model.changed.connect(this._onChanged, this);
    this._onChanged();
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    this._gpuDask.model.changed.disconnect(this._onChanged, this);
  }

  private _onChanged(): void {
    const { current, model } = this._gpuDask;
    const { notifications, otherClusters } = model.settings.value;
    this._dismissOutdated();
    const events = this._detector.detect(model.clusters.values());
    if (notifications) {
      events
        .filter(
          ({ cluster }) =>
            otherClusters !== 'hide' || current.isOpen(cluster.kernel_id)
        )
        .forEach(event => this._notify(event));
    }
  }

  private _notify(event: IClusterEvent): void {
    switch (event.kind) {
      case 'gpus-wanted':
        return this._notifyGpusWanted(event);
      case 'closes-soon':
        return this._notifyClosesSoon(event);
      case 'worker-lost':
        return this._notifyWorkerLost(event);
      case 'out-of-host-memory':
        return this._notifyOutOfHostMemory(event);
      case 'out-of-device-memory':
        return this._notifyOutOfDeviceMemory(event);
      default:
        if (!this._isPanelVisible()) {
          this._notifyEnd(event);
        }
    }
  }

  private _notifyEnd({ kind, cluster }: IClusterEvent): void {
    const { trans } = this._gpuDask;
    const { reason, starts } = snapshot(cluster, this._gpuDask);
    const message = fitted([cluster.name], name =>
      kind === 'start-failed'
        ? trans.__('The cluster of %1 did not start: %2', name, reason.message)
        : kind === 'failed'
          ? trans.__('The cluster of %1 has failed: %2', name, reason.message)
          : trans.__('%1: %2', name, reason.message)
    );
    // The card has the others.
    const { label, command } = starts[0];
    const actions = this._action(label, command, cluster);
    if (cluster.log) {
      actions.push(...this._logsAction(cluster));
    }
    const type = kind === 'closed' ? 'info' : 'error';
    this._emit(cluster, 'end', message, type, actions);
  }

  private _notifyGpusWanted({ cluster }: IClusterEvent): void {
    const { model, trans, language } = this._gpuDask;
    const time = closingTime(cluster, language);
    const held = resultBytes(cluster);
    const message = fitted([cluster.name, cluster.wanted_by], (name, user) =>
      held > 0
        ? trans.__(
            '%1: GPUs wanted by %2. Closes at %3 and loses %4 of results, unless kept.',
            name,
            user,
            time,
            formatBytes(held, model.settings.value.units)
          )
        : trans.__(
            '%1: GPUs wanted by %2. The idle cluster closes at %3 unless kept.',
            name,
            user,
            time
          )
    );
    this._emit(
      cluster,
      'gpus-wanted',
      message,
      'warning',
      this._action(trans.__('Keep'), CommandIDs.keep, cluster)
    );
  }

  private _notifyClosesSoon({ cluster }: IClusterEvent): void {
    const { trans, language } = this._gpuDask;
    const time = timesIn(language).time(cluster.state?.closes_at ?? 0);
    const message = fitted([cluster.name], name =>
      trans.__(
        '%1: the cluster closes at %2, the end of its maximum lifetime. Store the results that you need.',
        name,
        time
      )
    );
    this._emit(cluster, 'closes-soon', message, 'warning', []);
  }

  private _notifyWorkerLost({ cluster, workers }: IClusterEvent): void {
    const { trans } = this._gpuDask;
    const names = this._workerNames(cluster, workers);
    const message = fitted([cluster.name, names], (name, each) =>
      trans._n(
        '%2: a worker was lost (%3). Dask restarts it and recomputes its results.',
        '%2: %1 workers were lost (%3). Dask restarts them and recomputes their results.',
        workers.length,
        name,
        each
      )
    );
    this._emit(
      cluster,
      'worker-lost',
      message,
      'warning',
      this._logsAction(cluster)
    );
  }

  private _notifyOutOfHostMemory({ cluster, workers }: IClusterEvent): void {
    const { trans } = this._gpuDask;
    const names = this._workerNames(cluster, workers);
    const message = fitted([cluster.name, names], (name, each) =>
      trans._n(
        '%2: a worker ran out of host memory (%3). Dask restarts it and recomputes its results.',
        '%2: %1 workers ran out of host memory (%3). Dask restarts them and recomputes their results.',
        workers.length,
        name,
        each
      )
    );
    this._emit(
      cluster,
      'host-memory',
      message,
      'warning',
      this._logsAction(cluster)
    );
  }

  private _notifyOutOfDeviceMemory({ cluster, workers }: IClusterEvent): void {
    const { trans } = this._gpuDask;
    const names =
      workers.length > 2
        ? trans.__('%1 workers', workers.length)
        : this._workerNames(cluster, workers);
    const message = fitted([cluster.name, names], (name, each) =>
      trans.__(
        '%1: a task ran out of device memory on %2. Try smaller chunks, or a lower spill threshold.',
        name,
        each
      )
    );
    this._emit(
      cluster,
      'device-memory',
      message,
      'error',
      this._logsAction(cluster)
    );
  }

  private _workerNames({ state }: ICluster, workers: WorkerId[]): string {
    const { trans } = this._gpuDask;
    const names = workerNames(state?.workers ?? [], trans, true);
    return workers
      .map(worker => names.get(worker.name) ?? workerName(worker, trans))
      .join(', ');
  }

  /** Show a notification in place of that on the same subject, unless the same message is still shown. */
  private _emit(
    cluster: ICluster,
    subject: string,
    message: string,
    type: 'info' | 'warning' | 'error',
    actions: Notification.IAction[]
  ): void {
    const key = `${cluster.kernel_id} ${subject}`;
    const old = this._shown.get(key);
    const isShown = Notification.manager.notifications.some(
      each => each.id === old?.id && each.message === message
    );
    if (isShown) {
      return;
    }
    if (old) {
      Notification.dismiss(old.id);
    }
    const options = { autoClose: false as const, actions };
    const id = Notification.emit(message, type, options);
    this._shown.set(key, { id, cluster });
  }

  /** Dismiss the notifications of clusters that were started again, stopped or removed. */
  private _dismissOutdated(): void {
    for (const [key, { id, cluster }] of this._shown) {
      if (!this._isCurrent(cluster) || this._isKept(key, cluster)) {
        this._shown.delete(key);
        Notification.dismiss(id);
      }
    }
  }

  /** Whether the cluster of the kernel is still in the same status. */
  private _isCurrent({ kernel_id: kernelId, since }: ICluster): boolean {
    return this._gpuDask.model.clusters.get(kernelId)?.since === since;
  }

  /** Whether a notification says that GPUs are wanted, and they are not any more. */
  private _isKept(key: string, { kernel_id: kernelId }: ICluster): boolean {
    const now = this._gpuDask.model.clusters.get(kernelId);
    return key === `${kernelId} gpus-wanted` && !now?.given_over_at;
  }

  private _logsAction(cluster: ICluster): Notification.IAction[] {
    const { trans } = this._gpuDask;
    return this._action(trans.__('Logs'), CommandIDs.showLogs, cluster);
  }

  /** A button for a command; nothing if the settings do not offer it. */
  private _action(
    label: string,
    command: string,
    { kernel_id: kernelId, since }: ICluster
  ): Notification.IAction[] {
    const { commands, current, model } = this._gpuDask;
    const isOther = kernelId !== current.kernelId;
    const callback = (): void =>
      void commands.execute(command, { kernelId, since });
    return isOffered(command, isOther, model.settings.value)
      ? [{ label, callback }]
      : [];
  }

  private readonly _detector = new ClusterEventDetector();
  private _isDisposed = false;
  /** The notifications by kernel and subject, each with the cluster at that time. */
  private readonly _shown = new Map<
    string,
    { id: string; cluster: ICluster }
  >();
}
