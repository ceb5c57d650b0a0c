/**
 * Why a cluster has ended, as long as that holds.
 */
import { TranslationBundle } from '@jupyterlab/translation';

import { endReason } from '../errors';
import { ICluster, IGpuList } from '../model/api';
import { IGpuDask } from '../tokens';

/** The GPUs in a sentence of the server: "GPUs 0, 1 and 3 are held by …". */
const HELD = /GPUs? (\d[\d, and]*) (?:is|are) held by/g;

/** Why a cluster has failed or was closed, and how to fix it; or that the GPUs which it lacked are free. */
export function endText(
  cluster: ICluster,
  { model, trans }: Pick<IGpuDask, 'model' | 'trans'>
): string {
  if (areGpusFreeAgain(cluster, model.gpus)) {
    return freeText(heldGpus(cluster), trans);
  }
  const { reason, fix } = endReason(cluster, trans);
  return `${reason} ${fix}`.trim();
}

/**
 * Whether a cluster could not start because other clusters held its GPUs, and now could.
 *
 * All of the GPUs that its reason names must be free, and nobody may wait for GPUs.
 */
export function areGpusFreeAgain(
  cluster: ICluster,
  list: IGpuList | null
): boolean {
  const held = heldGpus(cluster);
  const isFree = (index: number): boolean => {
    const gpu = list?.gpus.find(each => each.index === index);
    return (
      gpu?.holders.every(
        ({ kernel_id: kernelId, share }) =>
          kernelId === cluster.kernel_id || (share && cluster.spec.share)
      ) ?? false
    );
  };
  return held.length > 0 && list?.waiting.length === 0 && held.every(isFree);
}

/** The indices of the GPUs that other clusters held when this cluster could not start. */
function heldGpus({ status, reason }: ICluster): number[] {
  return status === 'failed'
    ? [...reason.matchAll(HELD)].flatMap(([, indices]) =>
        (indices.match(/\d+/g) ?? []).map(Number)
      )
    : [];
}

function freeText(indices: number[], trans: TranslationBundle): string {
  return trans._n(
    'The cluster did not start because GPU %2 was held. It is free now.',
    'The cluster did not start because GPUs %2 were held. They are free now.',
    indices.length,
    indices.join(', ')
  );
}
