/**
 * Shows notifications for the events of clusters.
 */
import { Notification } from '@jupyterlab/apputils';
import { ReadonlyJSONObject } from '@lumino/coreutils';
import { IDisposable } from '@lumino/disposable';

import { isOffered, isOther } from '../cluster/offered';
import { workerName, workerNames } from '../cluster/names';
import { resultBytes, snapshot } from '../cluster/snapshot';
import { closingTime } from '../cluster/warnings';
import { CommandIDs } from '../commandIDs';
import { fitted, formatBytes } from '../format';
import { ICluster, isShared } from '../model/api';
import { timesIn } from '../times';
import { IGpuDask } from '../tokens';
import { ClusterEventDetector, IClusterEvent, WorkerId } from './clusterEvents';

/** What a notification says. */
interface INotice {
  type: 'info' | 'warning' | 'error';
  /** The texts that can be shortened, besides the name of the notebook. */
  names?: string[];
  text: (...names: string[]) => string;
  actions?: Notification.IAction[];
}

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
    // The panel shows why a cluster has ended.
    if (event.kind !== 'end' || !this._isPanelVisible()) {
      const { cluster, kind } = event;
      const { type, names = [], text, actions } = this._noticeOf(event);
      const message = fitted([cluster.name, ...names], text);
      this._emit(cluster, kind, message, type, actions);
    }
  }

  private _noticeOf(event: IClusterEvent): INotice {
    const { model, trans, language } = this._gpuDask;
    const { cluster, workers } = event;
    const { state } = cluster;
    const lost = this._workerNames(cluster, workers);
    const logs = this._action(trans.__('Logs'), CommandIDs.showLogs, cluster);
    switch (event.kind) {
      case 'end': {
        const { kind, reason, starts } = snapshot(cluster, this._gpuDask);
        const [{ label, command, args }] = starts;
        return {
          type: kind === 'failed' ? 'error' : 'info',
          text: name =>
            kind !== 'failed' || isShared(cluster.kernel_id)
              ? trans.__('%1: %2', name, reason.message)
              : event.wasStarting
                ? trans.__(
                    'The cluster of %1 did not start: %2',
                    name,
                    reason.message
                  )
                : trans.__(
                    'The cluster of %1 has failed: %2',
                    name,
                    reason.message
                  ),
          actions: [
            // The card has the other ones.
            ...this._action(label, command, cluster, args),
            ...(cluster.log ? logs : [])
          ]
        };
      }
      case 'gpus-wanted': {
        const time = closingTime(cluster, language);
        const held = resultBytes(cluster);
        const size = formatBytes(held, model.settings.value.units);
        return {
          type: 'warning',
          names: [cluster.wanted_by],
          text: (name, user) =>
            held > 0
              ? trans.__(
                  '%1: GPUs wanted by %2. Closes at %3 and loses %4 of results, unless kept.',
                  name,
                  user,
                  time,
                  size
                )
              : trans.__(
                  '%1: GPUs wanted by %2. The idle cluster closes at %3 unless kept.',
                  name,
                  user,
                  time
                ),
          actions: this._action(trans.__('Keep'), CommandIDs.keep, cluster)
        };
      }
      case 'got-gpus':
        return {
          type: 'info',
          text: name => trans.__('%1 has its GPUs: its cluster is ready.', name)
        };
      case 'closes-soon': {
        const time = timesIn(language).time(state?.closes_at ?? 0);
        return {
          type: 'warning',
          text: name =>
            trans.__(
              '%1: the cluster closes at %2, the end of its maximum lifetime. Store the results that you need.',
              name,
              time
            )
        };
      }
      case 'worker-lost':
      case 'out-of-host-memory':
        return {
          type: 'warning',
          names: [lost],
          text: (name, each) =>
            event.kind === 'worker-lost'
              ? trans._n(
                  '%2: a worker was lost (%3). Dask restarts it and recomputes its results.',
                  '%2: %1 workers were lost (%3). Dask restarts them and recomputes their results.',
                  workers.length,
                  name,
                  each
                )
              : trans._n(
                  '%2: a worker ran out of host memory (%3). Dask restarts it and recomputes its results.',
                  '%2: %1 workers ran out of host memory (%3). Dask restarts them and recomputes their results.',
                  workers.length,
                  name,
                  each
                ),
          actions: logs
        };
      case 'out-of-device-memory':
        return {
          type: 'error',
          names: [
            workers.length > 2 ? trans.__('%1 workers', workers.length) : lost
          ],
          text: (name, each) =>
            trans.__(
              '%1: a task ran out of device memory on %2. Try smaller chunks, or a lower spill threshold.',
              name,
              each
            ),
          actions: logs
        };
    }
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
    type: INotice['type'],
    actions: Notification.IAction[] = []
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

  /** A button for a command; nothing if the settings do not offer it. */
  private _action(
    label: string,
    command: string,
    { kernel_id: kernelId, since }: ICluster,
    args: ReadonlyJSONObject = {}
  ): Notification.IAction[] {
    const { commands, current, model } = this._gpuDask;
    const isOthers = isOther(kernelId, current.kernelId);
    const callback = (): void =>
      void commands.execute(command, { kernelId, since, ...args });
    return isOffered(command, isOthers, model.settings.value)
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
