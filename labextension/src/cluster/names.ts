/**
 * The names of clusters, which are those of their notebooks, and of their workers, which are those of their GPUs.
 */
import { TranslationBundle } from '@jupyterlab/translation';

import { ICluster, IGpu, IGpuHolder, isShared, IWorker } from '../model/api';
import { IGpuDask } from '../tokens';

/** The clusters, where those of notebooks with the same name, or with that of one of these paths, show their folders. */
export function withDistinctNames(
  clusters: ReadonlyMap<string, ICluster>,
  otherPaths: readonly string[] = []
): ReadonlyMap<string, ICluster> {
  const names = [
    ...[...clusters.values()].map(({ name }) => name),
    ...otherPaths.map(path => endOf(path, 1))
  ];
  return new Map(
    [...clusters].map(([kernelId, cluster]) => {
      if (names.filter(name => name === cluster.name).length < 2) {
        return [kernelId, cluster];
      }
      const others = [...clusters.values()]
        .filter(other => other !== cluster)
        .flatMap(({ notebooks }) => notebooks);
      const name = cluster.notebooks
        .map(path => distinctName(path, [...others, ...otherPaths]))
        .join(', ');
      return [kernelId, name ? { ...cluster, name } : cluster];
    })
  );
}

/** The file name of a path, with as many of its folders as distinguish it from the others. */
export function distinctName(path: string, others: readonly string[]): string {
  const length = path.split('/').length;
  const isTaken = (parts: number): boolean =>
    others.some(
      other => other !== path && endOf(other, parts) === endOf(path, parts)
    );
  let parts = 1;
  while (parts < length && isTaken(parts)) {
    parts += 1;
  }
  return endOf(path, parts);
}

/** A name, or several, without the suffix of notebooks. */
export function shortName(name: string): string {
  return name.replace(/\.ipynb(?=,|$)/g, '');
}

/** The last parts of a path. */
function endOf(path: string, parts: number): string {
  return path.split('/').slice(-parts).join('/');
}

/** The name of the current notebook, with folders if the cluster of another notebook has the same name. */
export function currentName({
  model,
  current
}: Pick<IGpuDask, 'model' | 'current'>): string {
  const others = [...model.clusters.values()].filter(
    cluster => cluster.kernel_id !== current.kernelId
  );
  return distinctName(
    current.path,
    others.flatMap(({ notebooks }) => notebooks)
  );
}

/** A cluster as the subject of a sentence. */
export function subjectOf(
  { kernel_id: kernelId, name }: Pick<ICluster, 'kernel_id' | 'name'>,
  trans: TranslationBundle
): string {
  return isShared(kernelId) ? name : trans.__('The cluster of %1', name);
}

/** The current name of the notebook that has reserved a GPU or waits for one; the lease has the name at its start. */
export function holderName(
  holder: Pick<IGpuHolder, 'name' | 'kernel_id'>,
  clusters: ReadonlyMap<string, ICluster>
): string {
  return clusters.get(holder.kernel_id ?? '')?.name ?? holder.name;
}

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
  const areSeveral = workers.some(({ host }) => host !== workers[0].host);
  const places = new Map<string, string[]>();
  workers.forEach(worker => {
    const place = `${worker.host} ${workerName(worker, trans)}`;
    places.set(place, [...(places.get(place) ?? []), worker.name]);
  });
  return new Map(
    workers.map((worker): [string, string] => {
      const own = workerName(worker, trans);
      const place = `${worker.host} ${own}`;
      const shown = withHosts && areSeveral ? place : own;
      const there = places.get(place) ?? [];
      const number = there.indexOf(worker.name) + 1;
      return [
        worker.name,
        there.length > 1 ? trans.__('%1, worker %2', shown, number) : shown
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
