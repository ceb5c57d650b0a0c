/**
 * What the server says against something, in the words of the panel.
 */
import { TranslationBundle } from '@jupyterlab/translation';

import { labelOf } from './fields';
import { ICluster, IProblem } from './model/api';
import { RefusedError } from './model/rest';

/** An option as it is typed in a cell: "--spill-threshold". */
const OPTION = /--([a-z][a-z-]*)/g;

/**
 * Say the label of a field where the server names an option of the magic.
 *
 * @param text - a sentence for somebody who types
 * @param field - which field the text is about, if it is about one
 */
export function inPanelWords(
  text: string,
  trans: TranslationBundle,
  field = ''
): string {
  return text.replace(OPTION, (_, option: string, offset: number) => {
    const isSubject = offset === 0;
    const name = isSubject && field ? field : option.replace(/-/g, '_');
    const label = labelOf(name, trans);
    return isSubject ? label : `“${label}”`;
  });
}

/** What is against something that was tried, as the user reads it. */
export function problemOf(error: unknown, trans: TranslationBundle): IProblem {
  if (error instanceof RefusedError) {
    const { message, fix, kind, field } = error.problem;
    return {
      message: inPanelWords(message, trans, field),
      fix: inPanelWords(fix, trans),
      kind,
      field
    };
  }
  const message = error instanceof Error ? error.message : String(error);
  return { message, fix: '', kind: '', field: '' };
}

/** The same in one text. */
export function sentenceOf(error: unknown, trans: TranslationBundle): string {
  const { message, fix } = problemOf(error, trans);
  return `${message} ${fix}`.trim();
}

/** Why a cluster is no more, what to do about it, and the last lines of what failed. */
export interface IEnd {
  reason: string;
  fix: string;
  log: string;
}

/** How a cluster ended; lines of a log may stand below what to do. */
export function endOf(cluster: ICluster, trans: TranslationBundle): IEnd {
  const [fix, ...lines] = cluster.fix.split('\n');
  return {
    reason: inPanelWords(cluster.reason, trans),
    fix: inPanelWords(fix, trans),
    log: cluster.log || lines.join('\n')
  };
}

/** Why a cluster never came up, with the field whose option the server names first; null of any other cluster. */
export function refusalOf(
  cluster: ICluster,
  trans: TranslationBundle
): IProblem | null {
  const { status, workers_ready: ready, workers_total: total } = cluster;
  if (status !== 'failed' || (total > 0 && ready === total)) {
    return null;
  }
  const { reason, fix } = endOf(cluster, trans);
  const [, option = ''] =
    `${cluster.reason} ${cluster.fix}`.match(OPTION.source) ?? [];
  const name = option.replace(/-/g, '_');
  const field = name === 'cpu' ? 'engine' : name;
  return { message: reason, fix, kind: '', field };
}

/** Whether other options help: the same order would be refused again. */
export function isOrderRefused(
  cluster: ICluster,
  trans: TranslationBundle
): boolean {
  return Boolean(refusalOf(cluster, trans)?.field);
}
