/**
 * The names of workers: those of their GPUs, if they have one.
 */
import { TranslationBundle } from '@jupyterlab/translation';

import { IGpu, IWorker } from '../model/api';

type NamedWorker = Pick<IWorker, 'name' | 'gpu_index'>;

/** The name of a worker, which others on its GPU share. */
export function workerName(
  worker: NamedWorker,
  trans: TranslationBundle
): string {
  return worker.gpu_index === null
    ? trans.__('Worker %1', worker.name)
    : trans.__('GPU %1', worker.gpu_index);
}

/**
 * The names of the workers of a cluster by their names in Dask; several workers on one GPU are numbered. `status` and
 * `logs` in a notebook use the same names.
 *
 * @param workers - all workers of the cluster
 * @param trans - the translations
 * @param withHosts - whether names have the host of the worker, if there are several hosts
 */
export function workerNames(
  workers: (NamedWorker & Pick<IWorker, 'host'>)[],
  trans: TranslationBundle,
  withHosts: boolean
): Map<string, string> {
  const places = workers.map(
    worker => `${worker.host} ${workerName(worker, trans)}`
  );
  const counts = new Map<string, number>();
  places.forEach(place => counts.set(place, (counts.get(place) ?? 0) + 1));
  const areSeveral =
    withHosts && workers.some(({ host }) => host !== workers[0].host);
  const numbers = new Map<string, number>();
  return new Map(
    workers.map((worker, index): [string, string] => {
      const place = places[index];
      const number = (numbers.get(place) ?? 0) + 1;
      numbers.set(place, number);
      const own = areSeveral ? place : workerName(worker, trans);
      return [
        worker.name,
        counts.get(place) === 1 ? own : trans.__('%1, worker %2', own, number)
      ];
    })
  );
}

/** The name of a worker that has left: that of its GPU, if that is its name in Dask. */
export function formerName(
  id: string,
  gpus: IGpu[],
  trans: TranslationBundle
): string {
  const gpu = gpus.find(each => each.uuid === id);
  return gpu ? trans.__('GPU %1', gpu.index) : trans.__('Worker %1', id);
}
