/**
 * The status bar item: the GPUs of the current notebook's cluster.
 */
import React from 'react';

import { snapshot } from '../cluster/snapshot';
import { CommandIDs } from '../commandIDs';
import { useGpuDask } from '../components/context';
import { formatUsage, sum } from '../format';
import { IGpu } from '../model/api';
import { IGpuDask } from '../tokens';

/** The GPUs on which the current notebook's cluster has workers. */
export function currentGpus(gpuDask: IGpuDask): IGpu[] {
  const cluster = gpuDask.model.clusters.get(gpuDask.current.kernelId ?? '');
  return snapshot(cluster, gpuDask).gpus;
}

/** The mean utilization and the total memory of these GPUs. */
export function StatusItem(): JSX.Element | null {
  const gpuDask = useGpuDask();
  const { commands, model, trans } = gpuDask;
  const { units } = model.settings.value;
  const gpus = currentGpus(gpuDask);
  if (gpus.length === 0) {
    return null;
  }
  const busy = sum(gpus.map(gpu => gpu.utilization)) / gpus.length;
  const used = sum(gpus.map(gpu => gpu.memory_used));
  const total = sum(gpus.map(gpu => gpu.memory_total));
  const isLost = model.status.kind === 'lost';
  return (
    <button
      type="button"
      className="jp-GpuDask-statusItem"
      data-stale={isLost}
      title={
        isLost
          ? trans.__('The connection to the server is lost; show the panel')
          : trans.__('The GPUs of this notebook’s cluster; show the panel')
      }
      onClick={() => void commands.execute(CommandIDs.showPanel)}
    >
      {trans._n('%1 GPU', '%1 GPUs', gpus.length)}{' '}
      {trans.__('%1 % busy', busy.toFixed(0))},{' '}
      {formatUsage(used, total, trans, units)}
    </button>
  );
}
