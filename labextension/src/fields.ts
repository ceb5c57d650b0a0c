/**
 * What the panel calls the options of a cluster.
 */
import { TranslationBundle } from '@jupyterlab/translation';

/** The label of a field, by its name at the server; a name that is not known stays as it is. */
export function labelOf(field: string, trans: TranslationBundle): string {
  switch (field) {
    case 'profile':
      return trans.__('Profile');
    case 'engine':
      return trans.__('Runs on');
    case 'gpus':
      return trans.__('GPUs');
    case 'workers':
      return trans.__('Workers');
    case 'threads':
      return trans.__('Threads');
    case 'memory_limit':
      return trans.__('Host memory');
    case 'pool':
      return trans.__('Memory pool');
    case 'spilling':
      return trans.__('Spilling');
    case 'spill_threshold':
      return trans.__('Spill above');
    case 'protocol':
      return trans.__('Protocol');
    case 'share':
      return trans.__('Share');
    case 'cpu':
      return trans.__('CPU stand-in');
    default:
      return field;
  }
}
