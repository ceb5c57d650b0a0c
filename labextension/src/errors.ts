/**
 * Errors of the server and of clusters, as the panel shows them.
 */
import { ServerConnection } from '@jupyterlab/services';
import { TranslationBundle } from '@jupyterlab/translation';

import { ICluster, IErrorDetails, IGpuList, IProblem } from './model/api';
import { ResponseError } from './model/rest';

/** What is wrong and what to do, in the language of the user. */
export interface ISentences {
  message: string;
  fix: string;
}

/** The sentences of an error of the server's catalog; those of the server for any other one. */
function localized(
  error: IErrorDetails | null | undefined,
  other: ISentences,
  trans: TranslationBundle
): ISentences {
  return error
    ? {
        message: filled(error.reason, error, trans),
        fix: filled(error.fix, error, trans)
      }
    : other;
}

/** A translated sentence of the catalog with its values; an option is named by the label of its field. */
function filled(
  sentence: string,
  { fields, field }: IErrorDetails,
  trans: TranslationBundle
): string {
  const value = (name: string, isSubject: boolean): string => {
    if (name.startsWith('--')) {
      return optionLabel(name, isSubject, trans);
    }
    const isField = name === 'option' && field;
    return isField ? fieldLabel(field, trans) : (fields[name] ?? '');
  };
  // eslint-disable-next-line jupyter/no-dynamic-translation -- `.ci/translations.py` reads the catalog
  const translated = sentence && trans.__(sentence);
  return translated
    .replace(
      /\{\{|\}\}|\{([^}]+)\}/g,
      (brace, name: string | undefined, offset: number) =>
        name === undefined ? brace[0] : value(name, offset === 0)
    )
    .trim();
}

/** An option of the magic with its value, such as "--share yes", as the panel has it. */
function optionLabel(
  text: string,
  isSubject: boolean,
  trans: TranslationBundle
): string {
  const [option, value] = text.split(' ');
  if (value === 'free') {
    return `“${trans.__('Start on the free GPUs')}”`;
  }
  const label = fieldLabel(option.slice(2).replace(/-/g, '_'), trans);
  if (value === 'yes') {
    return trans.__('“%1” selected', label);
  }
  return isSubject ? label : `“${label}”`;
}

/** Convert any error to a problem with a message, a fix and, if known, the field that caused it. */
export function toProblem(error: unknown, trans: TranslationBundle): IProblem {
  if (error instanceof ResponseError) {
    return inLanguage(error.problem, trans);
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

/** A problem with its sentences, and those of other fields, in the language of the user. */
function inLanguage(problem: IProblem, trans: TranslationBundle): IProblem {
  const { error, others = [] } = problem;
  return {
    ...problem,
    ...localized(error, problem, trans),
    others: others.map(each => inLanguage(each, trans))
  };
}

/** The message and the fix of an error. */
export function errorMessage(error: unknown, trans: TranslationBundle): string {
  const { message, fix } = toProblem(error, trans);
  return `${message} ${fix}`.trim();
}

/** Why a cluster failed or was closed, or why GPUs are missing, and how to fix it. */
export function endReason(
  { error, reason, fix }: Pick<ICluster | IGpuList, 'error' | 'reason' | 'fix'>,
  trans: TranslationBundle
): ISentences {
  return localized(error, { message: reason, fix }, trans);
}

/** The problem that prevented a cluster from starting; null if it did start. */
export function startProblem(
  cluster: ICluster,
  trans: TranslationBundle
): IProblem | null {
  const { status, workers_ready: ready, workers_total: total } = cluster;
  if (status !== 'failed' || (total > 0 && ready === total)) {
    return null;
  }
  const field = cluster.error?.field ?? '';
  return { ...endReason(cluster, trans), kind: '', field };
}

/** Whether a cluster could not start because others hold its GPUs, and some are free. */
export function canStartOnFree({ status, error }: ICluster): boolean {
  return status === 'failed' && !!error?.actions.includes('start-on-free');
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
