/**
 * Loads the notifier with the first cluster: without one there is nothing to notify of.
 */
import { IGpuDask } from '../tokens';
import type { Notifier } from './notifier';

/**
 * Show notifications for the events of clusters, as soon as there is a cluster.
 *
 * @param gpuDask - the shared service
 * @param isPanelVisible - whether the panel is visible
 */
export function loadNotifier(
  gpuDask: IGpuDask,
  isPanelVisible: () => boolean
): void {
  const { model } = gpuDask;
  const load = async (): Promise<Notifier | null> => {
    if (model.clusters.size === 0) {
      return null;
    }
    model.changed.disconnect(onChanged);
    // What happens while the notifier is loaded is an event: a change of these states.
    const known = [...model.clusters.values()];
    try {
      const { Notifier } = await import('./notifier');
      return new Notifier(gpuDask, isPanelVisible, known);
    } catch {
      // The server cannot be reached. The next change that it reports shows that it can.
      model.changed.connect(onChanged);
      return null;
    }
  };
  const onChanged = (): void => void load();
  model.changed.connect(onChanged);
}
