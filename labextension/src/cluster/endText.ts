/**
 * Why a cluster has ended, as long as that holds.
 */
import { TranslationBundle } from '@jupyterlab/translation';

import { endReason } from '../errors';
import { ICluster, IGpu, IGpuList } from '../model/api';
import { IGpuDask } from '../tokens';

/** Why a cluster has failed or was closed, and how to fix it; or that the GPUs which it lacked are free. */
export function endText(
  cluster: ICluster,
  { model, trans }: Pick<IGpuDask, 'model' | 'trans'>
): string {
  if (areGpusFreeAgain(cluster, model.gpus)) {
    return freeText(heldGpus(cluster, model.gpus), trans);
  }
  const { message, fix } = endReason(cluster, trans);
  return `${message} ${fix}`.trim();
}

/**
 * Whether a cluster could not start because other clusters held its GPUs, and now could.
 *
 * All of the GPUs that were held must be free, and nobody may wait for GPUs.
 */
export function areGpusFreeAgain(
  cluster: ICluster,
  list: IGpuList | null
): boolean {
  const held = heldGpus(cluster, list);
  const isFree = ({ holders }: IGpu): boolean =>
    holders.every(
      ({ kernel_id: kernelId, share }) =>
        kernelId === cluster.kernel_id || (share && cluster.spec.share)
    );
  return (
    held.length > 0 &&
    held.length === cluster.held_gpus.length &&
    list?.waiting.length === 0 &&
    held.every(isFree)
  );
}

/** The GPUs that other clusters held when this cluster could not start. */
function heldGpus(
  { status, held_gpus: held }: ICluster,
  list: IGpuList | null
): IGpu[] {
  return status === 'failed'
    ? (list?.gpus.filter(({ uuid }) => held.includes(uuid)) ?? [])
    : [];
}

function freeText(gpus: IGpu[], trans: TranslationBundle): string {
  return trans._n(
    'The cluster did not start because GPU %2 was held. It is free now.',
    'The cluster did not start because GPUs %2 were held. They are free now.',
    gpus.length,
    gpus.map(({ index }) => index).join(', ')
  );
}
