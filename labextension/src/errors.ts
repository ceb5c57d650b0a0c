/**
 * Errors of the server and of clusters, as the panel shows them.
 */
import { ServerConnection } from '@jupyterlab/services';
import { TranslationBundle } from '@jupyterlab/translation';

import { ICluster, IProblem } from './model/api';
import { ResponseError } from './model/rest';

/** An option of the magic, such as "--spill-threshold"; one that is turned on with "yes" is a checkbox in the panel. */
const OPTION = /--([a-z][a-z-]*)( yes\b)?/g;

/** In the panel this is a button. */
const ON_FREE = / with --gpus free\b/;

/**
 * Replace the names of magic options by the labels of the panel's fields.
 *
 * @param text - a message of the server
 * @param trans - the translations
 * @param field - the field that the message is about, if any
 */
export function replaceOptionNames(
  text: string,
  trans: TranslationBundle,
  field = ''
): string {
  return text
    .replace(ON_FREE, '')
    .replace(
      OPTION,
      (_, option: string, yes: string | undefined, offset: number) => {
        const isSubject = offset === 0;
        const name = isSubject && field ? field : option.replace(/-/g, '_');
        const label = fieldLabel(name, trans);
        if (yes) {
          return trans.__('“%1” selected', label);
        }
        return isSubject ? label : `“${label}”`;
      }
    );
}

/** Convert any error to a problem with a message, a fix and, if known, the field that caused it. */
export function toProblem(error: unknown, trans: TranslationBundle): IProblem {
  if (error instanceof ResponseError) {
    return withLabels(error.problem, trans);
  }
  // The message of a network error is the browser's.
  const message =
    error instanceof ServerConnection.NetworkError
      ? trans.__('The connection to the server is lost.')
      : error instanceof Error
        ? error.message
        : String(error);
  return { message, fix: '', kind: '', field: '' };
}

/** A problem with the labels of the panel's fields, and those of other fields. */
function withLabels(problem: IProblem, trans: TranslationBundle): IProblem {
  const { message, fix, kind, field, others = [] } = problem;
  return {
    message: replaceOptionNames(message, trans, field),
    fix: replaceOptionNames(fix, trans),
    kind,
    field,
    others: others.map(each => withLabels(each, trans))
  };
}

/** The message and the fix of an error. */
export function errorMessage(error: unknown, trans: TranslationBundle): string {
  const { message, fix } = toProblem(error, trans);
  return `${message} ${fix}`.trim();
}

/** Why a cluster failed or was closed. */
export interface IEndReason {
  reason: string;
  fix: string;
  /** The last lines of the log. */
  log: string;
}

/** The reason, fix and log of a cluster that failed or was closed. */
export function endReason(
  cluster: ICluster,
  trans: TranslationBundle
): IEndReason {
  // Lines of the log may follow the first line of the fix.
  const [fix, ...lines] = cluster.fix.split('\n');
  return {
    reason: replaceOptionNames(cluster.reason, trans),
    fix: replaceOptionNames(fix, trans),
    log: cluster.log || lines.join('\n')
  };
}

/**
 * The problem that prevented a cluster from starting; null if it did start.
 *
 * Its field is that of the first magic option that the message names.
 */
export function startProblem(
  cluster: ICluster,
  trans: TranslationBundle
): IProblem | null {
  const { status, workers_ready: ready, workers_total: total } = cluster;
  if (status !== 'failed' || (total > 0 && ready === total)) {
    return null;
  }
  const { reason, fix } = endReason(cluster, trans);
  const [, option = ''] =
    `${cluster.reason} ${cluster.fix}`.match(OPTION.source) ?? [];
  const name = option.replace(/-/g, '_');
  const field = name === 'cpu' ? 'engine' : name;
  return { message: reason, fix, kind: '', field };
}

/** Whether a cluster could not start because others hold its GPUs, and some are free. */
export function canStartOnFree({ status, fix }: ICluster): boolean {
  return status === 'failed' && /--gpus free\b/.test(fix);
}

/** Whether a cluster could not start with its options, so that starting it again needs other ones. */
export function areOptionsRefused(
  cluster: ICluster,
  trans: TranslationBundle
): boolean {
  return Boolean(startProblem(cluster, trans)?.field);
}

/** The label of a field of the server's cluster options; unknown names are returned as they are. */
function fieldLabel(field: string, trans: TranslationBundle): string {
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
    case 'adapt':
      return trans.__('Adaptive');
    case 'environment':
      return trans.__('Environment');
    case 'share':
      return trans.__('Share with other clusters that share GPUs');
    case 'cpu':
      return trans.__('CPU stand-in');
    default:
      return field;
  }
}
