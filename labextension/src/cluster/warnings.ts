/**
 * Sentences on what would be lost if a cluster were closed, and when it is.
 */
import { TranslationBundle } from '@jupyterlab/translation';

import { formatBytes, formatCount, Units } from '../format';
import { ICluster } from '../model/api';
import { timesIn } from '../times';
import { IGpuDask } from '../tokens';
import { workerNames } from './names';
import { progressOf, resultBytes, taskCounts } from './snapshot';

/** What closing a cluster would lose; empty if nothing. */
export function lossWarning(
  cluster: ICluster,
  units: Units,
  trans: TranslationBundle
): string {
  const { running, waiting } = taskCounts(cluster);
  const tasks = running + waiting;
  const progress = progressOf(cluster, trans);
  const held = resultBytes(cluster);
  return [
    cluster.busy && trans.__('Its notebook is running a cell.'),
    progress && trans.__('%1 are done.', progress.done),
    tasks > 0 &&
      !progress &&
      trans._n(
        '%2 task is not finished.',
        '%2 tasks are not finished.',
        tasks,
        formatCount(tasks)
      ),
    held > 0 &&
      trans.__(
        'Its workers hold %1 of results, which will be lost.',
        formatBytes(held, units)
      ),
    tasks > 0 &&
      held === 0 &&
      trans.__('All results on its workers will be lost.')
  ]
    .filter(Boolean)
    .join(' ');
}

/** What releasing the results of a cluster would lose; empty if nothing. */
export function releaseWarning(
  cluster: ICluster,
  units: Units,
  trans: TranslationBundle
): string {
  const held = resultBytes(cluster);
  const workers = cluster.state?.workers ?? [];
  const names = workerNames(workers, trans, true);
  const places = workers
    .filter(worker => worker.result_bytes > 0)
    .map(worker =>
      trans.__(
        '%1 %2',
        names.get(worker.name) ?? worker.name,
        formatBytes(worker.result_bytes, units)
      )
    );
  return held > 0
    ? trans.__(
        'Its workers hold %1 of results (%2), which will be lost: cells that made persisted collections must be run again. Tasks that are not finished continue.',
        formatBytes(held, units),
        places.join(', ')
      )
    : '';
}

/** Who waits for the GPUs of an idle cluster, when it is closed, and what that would lose. */
export function wantedSentences(
  cluster: ICluster,
  units: Units,
  { trans, language }: Pick<IGpuDask, 'trans' | 'language'>
): string {
  const wanted = trans.__(
    'Its GPUs are wanted by %1. The idle cluster is closed at %2 unless you keep it.',
    cluster.wanted_by,
    closingTime(cluster, language)
  );
  return `${wanted} ${lossWarning(cluster, units, trans)}`.trim();
}

/** When an idle cluster is closed whose GPUs are wanted. */
export function closingTime(cluster: ICluster, language: string): string {
  return timesIn(language).time(cluster.given_over_at ?? 0);
}
