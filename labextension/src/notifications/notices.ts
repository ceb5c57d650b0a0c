/**
 * When the notifications for events of clusters are loaded.
 */
import { ICluster } from '../model/api';
import { IGpuDask } from '../tokens';
import type { Notifier } from './notifier';

/**
 * Show notifications for the events of clusters; before the first change there is nothing to notify of.
 *
 * @param gpuDask - the shared service
 * @param isPanelVisible - whether the panel is visible
 */
export function loadNotifier(
  gpuDask: IGpuDask,
  isPanelVisible: () => boolean
): void {
  const { model } = gpuDask;
  // The first states are no events; every later one is compared with them.
  let known: ICluster[] = [];
  const load = async (): Promise<Notifier | null> => {
    if (known.length === 0) {
      known = [...model.clusters.values()];
      return null;
    }
    model.changed.disconnect(onChanged);
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
