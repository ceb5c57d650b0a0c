/**
 * The progress of the current notebook's cluster in the title of the browser's tab, which is read where the page is hidden.
 */
import { snapshot } from '../cluster/snapshot';
import { IGpuDask } from '../tokens';

/** Keep the title up to date. */
export function showProgressInTitle(gpuDask: IGpuDask): void {
  const { model, current, trans } = gpuDask;
  const update = (): void => {
    const cluster = model.clusters.get(current.kernelId ?? '');
    const { progress } = snapshot(cluster, gpuDask);
    const name = document.title.replace(/^\d+ % · /, '');
    const title = progress
      ? `${trans.__('%1 %', progress.percent)} · ${name}`
      : name;
    if (title !== document.title) {
      document.title = title;
    }
  };
  model.changed.connect(update);
  current.changed.connect(update);
}
