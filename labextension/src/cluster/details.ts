/**
 * Details of clusters, which are loaded with the views that show them: tasks, spilled bytes, and who holds a GPU.
 */
import { sum } from '../format';
import { ICluster, IGpuHolder, IWorker } from '../model/api';

/** The current name of the notebook that holds a GPU; the lease has the name at its start. */
export function holderName(
  holder: IGpuHolder,
  clusters: ReadonlyMap<string, ICluster>
): string {
  return clusters.get(holder.kernel_id ?? '')?.name ?? holder.name;
}

/** The bytes that a worker has spilled to host memory and to disk. */
export function spilledBytes(
  worker: Pick<IWorker, 'spilled_to_host' | 'spilled_to_disk'>
): number {
  return sum([worker.spilled_to_host, worker.spilled_to_disk]);
}

/** The numbers of running and of waiting tasks. */
export function taskCounts(cluster: ICluster): {
  running: number;
  waiting: number;
} {
  const { workers = [], tasks_unfinished: unfinished = 0 } =
    cluster.state ?? {};
  const running = sum(workers.map(worker => worker.executing));
  return { running, waiting: Math.max(0, unfinished - running) };
}
