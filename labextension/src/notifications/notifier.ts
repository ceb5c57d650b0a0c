/**
 * Tells of what befalls clusters.
 */
import { Notification } from '@jupyterlab/apputils';
import { IDisposable } from '@lumino/disposable';

import { CommandIDs } from '../commandIDs';
import { endOf, isOrderRefused } from '../errors';
import { nameOf } from '../format';
import { ICluster } from '../model/api';
import { RestClient } from '../model/rest';
import { IGpuDask } from '../tokens';
import { endOfWorker, IIncident, IncidentFinder } from './clusterEvents';

export class Notifier implements IDisposable {
  /**
   * @param gpuDask - what is watched
   * @param _rest - has the logs
   * @param _isSeen - whether the cards of the clusters are in view, which say how a cluster ended
   */
  constructor(
    private readonly _gpuDask: IGpuDask,
    private readonly _rest: RestClient,
    private readonly _isSeen: () => boolean
  ) {
    _gpuDask.model.changed.connect(this._onChanged, this);
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    this._gpuDask.model.changed.disconnect(this._onChanged, this);
  }

  private _onChanged(): void {
    const { model } = this._gpuDask;
    this._dismissOld();
    const incidents = this._finder.find(model.clusters.values());
    if (model.settings.value.notifications) {
      incidents.forEach(incident => void this._tell(incident));
    }
  }

  private async _tell(incident: IIncident): Promise<void> {
    if (incident.kind === 'workers-replaced') {
      await this._tellOfWorkers(incident);
    } else if (incident.kind === 'out-of-device-memory') {
      this._tellOfShortage(incident);
    } else if (!this._isSeen()) {
      this._tellOfEnd(incident);
    }
  }

  private _tellOfEnd({ kind, cluster }: IIncident): void {
    const { trans } = this._gpuDask;
    const { reason, log } = endOf(cluster, trans);
    const said =
      kind === 'not-started'
        ? trans.__('The cluster of %1 did not start: %2', cluster.name, reason)
        : kind === 'failed'
          ? trans.__('The cluster of %1 has failed: %2', cluster.name, reason)
          : trans.__('%1: %2', cluster.name, reason);
    const actions = [
      isOrderRefused(cluster, trans)
        ? this._action(
            trans.__('Change options…'),
            CommandIDs.startWithOptions,
            cluster
          )
        : this._action(trans.__('Start again'), CommandIDs.restart, cluster)
    ];
    if (log) {
      actions.push(this._logs(cluster));
    }
    this._emit(
      cluster,
      'end',
      said,
      kind === 'closed' ? 'info' : 'error',
      actions
    );
  }

  /** The cell says that its task failed; what can be done about it is said here. */
  private _tellOfShortage({ cluster, short }: IIncident): void {
    const { trans } = this._gpuDask;
    const names = short.map(worker => nameOf(worker, trans)).join(', ');
    // JupyterLab cuts what is longer than 140 characters.
    const said = trans.__(
      '%1: a task ran out of device memory on %2. Try smaller chunks, or a lower spill threshold.',
      cluster.name,
      short.length > 2 ? trans.__('%1 workers', short.length) : names
    );
    this._emit(cluster, 'shortage', said, 'error', [this._logs(cluster)]);
  }

  private async _tellOfWorkers({
    cluster,
    replaced
  }: IIncident): Promise<void> {
    const { trans } = this._gpuDask;
    const log = await this._log(cluster.kernel_id);
    const ends = replaced.map(({ worker, pid }) => ({
      name: nameOf(worker, trans),
      end: endOfWorker(log, pid)
    }));
    const namesOf = (wanted: string): string =>
      ends
        .filter(({ end }) => end === wanted)
        .map(({ name }) => name)
        .join(', ');
    const full = namesOf('out-of-memory');
    const lost = namesOf('lost');
    const actions = [this._logs(cluster)];
    if (full) {
      const said = trans.__(
        '%1: %2 ran out of host memory. Its worker was started again, and Dask computes again what it held.',
        cluster.name,
        full
      );
      this._emit(cluster, 'memory', said, 'warning', actions);
    }
    if (lost) {
      const said = trans.__(
        '%1: %2 lost its worker. Another was started, and Dask computes again what it held.',
        cluster.name,
        lost
      );
      this._emit(cluster, 'lost', said, 'warning', actions);
    }
  }

  /** Notify; what was said before of the same subject goes, unless it is the same and is still there. */
  private _emit(
    cluster: ICluster,
    subject: string,
    said: string,
    type: 'info' | 'warning' | 'error',
    actions: Notification.IAction[]
  ): void {
    if (!this._isSo(cluster)) {
      return;
    }
    const key = `${cluster.kernel_id} ${subject}`;
    const old = this._told.get(key);
    const isTold = Notification.manager.notifications.some(
      ({ id, message }) => id === old?.id && message === said
    );
    if (isTold) {
      return;
    }
    if (old) {
      Notification.dismiss(old.id);
    }
    const options = { autoClose: false as const, actions };
    const id = Notification.emit(said, type, options);
    this._told.set(key, { id, cluster });
  }

  /** A notification is about a cluster in one status; what came after that is not its business. */
  private _dismissOld(): void {
    for (const [key, { id, cluster }] of this._told) {
      if (!this._isSo(cluster)) {
        this._told.delete(key);
        Notification.dismiss(id);
      }
    }
  }

  private _isSo({ kernel_id: kernelId, since }: ICluster): boolean {
    return this._gpuDask.model.clusters.get(kernelId)?.since === since;
  }

  /** What the scheduler has logged; nothing if it cannot be read any more. */
  private async _log(kernelId: string): Promise<string> {
    try {
      return (await this._rest.logs(kernelId)).supervisor ?? '';
    } catch {
      return '';
    }
  }

  private _logs(cluster: ICluster): Notification.IAction {
    const { trans } = this._gpuDask;
    return this._action(trans.__('Logs'), CommandIDs.showLogs, cluster);
  }

  private _action(
    label: string,
    command: string,
    { kernel_id: kernelId, since }: ICluster
  ): Notification.IAction {
    const { commands } = this._gpuDask;
    return {
      label,
      callback: () => void commands.execute(command, { kernelId, since })
    };
  }

  private readonly _finder = new IncidentFinder();
  private _isDisposed = false;
  /** The notifications, by what they are about, and the cluster as it was then. */
  private readonly _told = new Map<string, { id: string; cluster: ICluster }>();
}
