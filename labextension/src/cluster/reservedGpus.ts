/**
 * Who has reserved the GPUs for which a cluster could not start, and whether they are free again.
 */
import { TranslationBundle } from '@jupyterlab/translation';

import { endReason, ISentences } from '../errors';
import { ICluster, IGpu, IGpuHolder, IGpuList } from '../model/api';
import { IGpuDask } from '../tokens';
import { holderName } from './names';

/** The GPUs that other clusters had reserved when this one could not start: none while one of them is reserved, or waited for. */
export function freedGpus(cluster: ICluster, list: IGpuList | null): IGpu[] {
  const { status, reserved_gpus: uuids, kernel_id: kernelId, spec } = cluster;
  const held = list?.gpus.filter(({ uuid }) => uuids.includes(uuid)) ?? [];
  const areFree = held.every(({ holders }) =>
    holders.every(
      each => each.kernel_id === kernelId || (each.share && spec.share)
    )
  );
  return status === 'failed' &&
    areFree &&
    held.length === uuids.length &&
    list?.waiting.length === 0
    ? held
    : [];
}

/** Who has reserved the GPUs now: names and holders may have changed since the start was refused. */
export function reservedReason(
  cluster: ICluster,
  { gpus, clusters }: IGpuDask['model'],
  trans: TranslationBundle
): Partial<ISentences> {
  const all = gpus?.gpus ?? [];
  const others = ({ holders }: IGpu): IGpuHolder[] =>
    holders.filter(each => each.kernel_id !== cluster.kernel_id);
  const held = all.filter(
    gpu => cluster.reserved_gpus.includes(gpu.uuid) && others(gpu).length > 0
  );
  const groups = new Map<string, IGpu[]>();
  held.forEach(gpu => {
    const names = others(gpu).map(each => holderName(each, clusters));
    const key = [...new Set(names)].join(', ');
    groups.set(key, [...(groups.get(key) ?? []), gpu]);
  });
  if (groups.size === 0) {
    return {};
  }
  const sentences = [...groups].map(([names, each]) =>
    trans._n(
      'GPU %2 is reserved by %3.',
      'GPUs %2 are reserved by %3.',
      each.length,
      indicesOf(each),
      names
    )
  );
  const message = sentences.join(' ');
  if (groups.size <= MOST_HOLDERS) {
    return { message };
  }
  return {
    message:
      held.length === all.length
        ? trans.__('All %1 GPUs are reserved.', all.length)
        : trans.__('GPUs %1 are reserved.', indicesOf(held)),
    fix: `${message} ${endReason(cluster, trans).fix}`
  };
}

/** More holders are not in the headline. */
const MOST_HOLDERS = 2;

/** The indices of GPUs: "0–3, 6". */
function indicesOf(gpus: IGpu[]): string {
  const runs: number[][] = [];
  for (const { index } of gpus) {
    const run = runs.at(-1);
    if (run?.at(-1) === index - 1) {
      run.push(index);
    } else {
      runs.push([index]);
    }
  }
  return runs
    .map(run => (run.length > 2 ? `${run[0]}–${run.at(-1)}` : run.join(', ')))
    .join(', ');
}

/** That the GPUs are free now. */
export function freeText(gpus: IGpu[], trans: TranslationBundle): string {
  return trans._n(
    'The cluster did not start because GPU %2 was reserved. It is free now.',
    'The cluster did not start because GPUs %2 were reserved. They are free now.',
    gpus.length,
    indicesOf(gpus)
  );
}
