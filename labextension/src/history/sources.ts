/**
 * The GPUs and workers whose metrics are in the history, and the machine.
 */
import { TranslationBundle } from '@jupyterlab/translation';

import { formerName, workerNames } from '../cluster/names';
import { isShown } from '../cluster/offered';
import { ICluster } from '../model/api';
import { GpuDaskModel } from '../model/model';
import { HistoryStore } from './store';

/** A source of metrics: a GPU, a worker of a cluster, or the machine. */
export interface ISource {
  key: string;
  name: string;
  /** The model of the GPU, or the notebook of the worker; else empty. */
  details: string;
  /** The kernel of the worker's cluster; else empty. */
  kernelId: string;
  /** The UUID of the GPU, the name of the worker in Dask, or `MACHINE`. */
  id: string;
}

/** The sources in the store. */
export interface ISources {
  gpus: ISource[];
  workers: ISource[];
  machine: ISource[];
}

/**
 * The sources in the store, with their current names.
 *
 * @param currentId - the current kernel, whose workers are shown even if those of other notebooks are hidden
 */
export function sourcesOf(
  model: GpuDaskModel,
  store: HistoryStore,
  trans: TranslationBundle,
  currentId: string | null
): ISources {
  return {
    gpus: gpusIn(model, store, trans),
    workers: workersIn(model, store, trans).filter(({ kernelId }) =>
      isShown(kernelId, currentId, model.settings.value)
    ),
    machine: machineIn(store, trans)
  };
}

/** A text that differs when the names of the sources must be read again. */
export function sourceNamesKey(
  { gpus, clusters, settings }: GpuDaskModel,
  currentId: string | null
): string {
  const clusterKeys = [...clusters.values()].map(
    ({ kernel_id, name, state }) =>
      `${kernel_id} ${name} ${state?.workers.length}`
  );
  const { otherClusters } = settings.value;
  return `${gpus?.gpus.length} ${clusterKeys.join()} ${otherClusters} ${currentId}`;
}

function gpusIn(
  model: GpuDaskModel,
  store: HistoryStore,
  trans: TranslationBundle
): ISource[] {
  return (model.gpus?.gpus ?? [])
    .filter(gpu => store.gpus.has(gpu.uuid))
    .map(gpu => ({
      key: gpu.uuid,
      name: trans.__('GPU %1', gpu.index),
      details: gpu.name,
      kernelId: '',
      id: gpu.uuid
    }));
}

function workersIn(
  model: GpuDaskModel,
  store: HistoryStore,
  trans: TranslationBundle
): ISource[] {
  const names = new Map<string, Map<string, string>>();
  for (const [kernelId, { state }] of model.clusters) {
    names.set(kernelId, workerNames(state?.workers ?? [], trans, true));
  }
  const gpus = model.gpus?.gpus ?? [];
  return [...store.workers].map(([key, { kernelId, id }]) => {
    const cluster = model.clusters.get(kernelId);
    const name = names.get(kernelId)?.get(id) ?? formerName(id, gpus, trans);
    return { key, name, details: detailsOf(cluster, trans), kernelId, id };
  });
}

function machineIn(store: HistoryStore, trans: TranslationBundle): ISource[] {
  return [...store.machine].map(([key, { kernelId, id }]) => ({
    key,
    name: trans.__('This machine'),
    details: '',
    kernelId,
    id
  }));
}

function detailsOf(
  cluster: ICluster | undefined,
  trans: TranslationBundle
): string {
  return cluster?.name ?? trans.__('an earlier cluster');
}

/** The name of a source with its details: "GPU 0 (NVIDIA H200)". */
export function fullName({ name, details }: ISource): string {
  return details ? `${name} (${details})` : name;
}
