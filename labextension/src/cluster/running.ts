/**
 * The clusters in JupyterLab's panel of running terminals and kernels.
 */
import { IRunningSessions } from '@jupyterlab/running';

import { CommandIDs } from '../commandIDs';
import { formatBytes, sum } from '../format';
import { gpuDaskIcon } from '../icons';
import { ICluster } from '../model/api';
import { IGpuDask } from '../tokens';
import { isOffered, isOther, limitOf, shownClusters } from './offered';
import { resultBytes, snapshot } from './snapshot';

/** The section of the clusters. It requests them itself while the stream is closed. */
export class RunningClusters implements IRunningSessions.IManager {
  constructor(private readonly _gpuDask: IGpuDask) {
    const { trans } = _gpuDask;
    this.name = trans.__('GPU Dask Clusters');
    this.shutdownLabel = trans.__('Stop Cluster');
    this.shutdownAllLabel = trans.__('Stop All');
    this.runningChanged = _gpuDask.model.clustersChanged;
  }

  readonly name: string;
  readonly shutdownLabel: string;
  readonly shutdownAllLabel: string;
  readonly runningChanged: IRunningSessions.IManager['runningChanged'];

  running(): IRunningSessions.IRunningItem[] {
    if (this._gpuDask.model.status.kind === 'closed') {
      this.refreshRunning();
    }
    return this._active().map(cluster => this._itemOf(cluster));
  }

  refreshRunning(): void {
    void this._refresh();
  }

  shutdownAll(): void {
    const stops = this._stoppable().map(({ kernel_id: id }) =>
      this._gpuDask.rest.stop(id)
    );
    void Promise.allSettled(stops).then(() => this._refresh());
  }

  shutdownAllConfirmationText = (): string => {
    const { model, trans } = this._gpuDask;
    const { units } = model.settings.value;
    const held = sum(this._stoppable().map(resultBytes));
    return held > 0
      ? trans.__(
          'Stop all clusters? Their workers hold %1 of results, which will be lost.',
          formatBytes(held, units)
        )
      : trans.__(
          'Stop all clusters? All results on their workers will be lost.'
        );
  };

  private _active(): ICluster[] {
    const { model, current } = this._gpuDask;
    const { kernelId } = current;
    return shownClusters(
      model.clusters.values(),
      kernelId,
      model.settings.value
    ).filter(({ status }) => status !== 'closed' && status !== 'failed');
  }

  /** The active clusters that may be stopped here. */
  private _stoppable(): ICluster[] {
    return this._active().filter(cluster => this._mayStop(cluster));
  }

  private _mayStop(cluster: ICluster): boolean {
    const { model, current } = this._gpuDask;
    const isOthers = isOther(cluster.kernel_id, current.kernelId);
    return (
      !limitOf(CommandIDs.stop, cluster) &&
      isOffered(CommandIDs.stop, isOthers, model.settings.value)
    );
  }

  private _itemOf(cluster: ICluster): IRunningSessions.IRunningItem {
    const { commands } = this._gpuDask;
    const { short, state, engine } = snapshot(cluster, this._gpuDask);
    const title = [cluster.name, state, engine].filter(Boolean).join(', ');
    const args = { kernelId: cluster.kernel_id };
    return {
      icon: () => gpuDaskIcon,
      label: () => cluster.name,
      labelTitle: () => title,
      // The column is narrow.
      detail: () => short,
      open: () => void commands.execute(CommandIDs.showPanel),
      shutdown: this._mayStop(cluster)
        ? () => void commands.execute(CommandIDs.stop, args)
        : undefined
    };
  }

  private async _refresh(): Promise<void> {
    try {
      this._gpuDask.model.setClusters(await this._gpuDask.rest.clusters());
    } catch {
      // The panel shows the connection error.
    }
  }
}
