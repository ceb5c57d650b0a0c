/**
 * The question before results or tasks of a cluster are lost, which follows the cluster while it is open.
 */
import { Dialog } from '@jupyterlab/apputils';
import React from 'react';

import '../../style/dialogs.css';

import { LiveWidget, useGpuDask } from '../components/liveWidget';
import { ICluster } from '../model/api';
import { IGpuDask } from '../tokens';

interface ILossOptions {
  title: string;
  /** The label of the button that confirms. */
  action: string;
  kernelId: string;
  /** Whether a cluster of the kernel is the one that is asked about. */
  isSame: (cluster: ICluster) => boolean;
  /** What would be lost now; empty if nothing. */
  warningOf: (cluster: ICluster) => string;
}

/** Closes when its cluster has ended. When its reason has, it waits for the answer: the next cell may start at once. */
export class LossDialog extends Dialog<void> {
  constructor(
    private readonly _gpuDask: IGpuDask,
    private readonly _loss: ILossOptions
  ) {
    const { trans } = _gpuDask;
    super({
      title: _loss.title,
      body: new LiveWidget(_gpuDask, () => <Loss {..._loss} />),
      buttons: [
        Dialog.cancelButton({ label: trans.__('Cancel') }),
        Dialog.warnButton({ label: _loss.action })
      ]
    });
    _gpuDask.model.changed.connect(this._onChanged, this);
  }

  override dispose(): void {
    this._gpuDask.model.changed.disconnect(this._onChanged, this);
    super.dispose();
  }

  private _onChanged(): void {
    const { kernelId, isSame } = this._loss;
    const cluster = this._gpuDask.model.clusters.get(kernelId);
    if (!cluster || !isSame(cluster)) {
      this.reject();
    }
  }
}

/** What would be lost, read out when it changes. */
function Loss({ kernelId, warningOf }: ILossOptions): JSX.Element {
  const { model, trans } = useGpuDask();
  const cluster = model.clusters.get(kernelId);
  return (
    <div className="jp-GpuDask-loss" role="status">
      {(cluster && warningOf(cluster)) ||
        trans.__('The work has ended: nothing would be lost now.')}
    </div>
  );
}
