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
  { fields, labels }: IErrorDetails,
  trans: TranslationBundle
): string {
  const value = (name: string, isSubject: boolean): string => {
    const text = name.startsWith('--') ? name : (fields[name] ?? '');
    const [option, ...choice] = text.split(' ');
    if (!(option in labels)) {
      return text;
    }
    const label = [translated(labels[option], trans), ...choice].join(': ');
    return isSubject ? label : `“${label}”`;
  };
  return translated(sentence, trans)
    .replace(
      /\{\{|\}\}|\{([^}]+)\}/g,
      (brace, name: string | undefined, offset: number) =>
        name === undefined ? brace[0] : value(name, offset === 0)
    )
    .trim();
}

/** A text of the server; `.ci/translations.py` reads its catalog of errors and the options of a cluster. */
export function translated(text: string, trans: TranslationBundle): string {
  // eslint-disable-next-line jupyter/no-dynamic-translation
  return text && trans.__(text);
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
