import { ICluster } from '../model/api';
import { IGpuDask } from '../tokens';

/** JupyterLab's command, which in Notebook 7 opens a page. */
const OPEN = 'docmanager:open';

/** A function that shows the notebook or console of a cluster; null if it is not open in this page and has no file. */
export function notebookOpener(
  { current, commands }: Pick<IGpuDask, 'current' | 'commands'>,
  { kernel_id: kernelId, notebooks }: ICluster
): (() => void) | null {
  if (current.isOpen(kernelId)) {
    return () => current.activate(kernelId);
  }
  // A console has no file.
  const path = notebooks.find(each => each.endsWith('.ipynb'));
  return path && commands.hasCommand(OPEN)
    ? () => void commands.execute(OPEN, { path })
    : null;
}
