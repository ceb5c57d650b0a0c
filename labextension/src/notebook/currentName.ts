import { distinctName } from '../cluster/summary';
import { IGpuDask } from '../tokens';

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
