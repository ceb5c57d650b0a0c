/**
 * What a user has chosen in the dialog, and the order that it makes.
 */
import {
  Amount,
  IClusterSpec,
  IGpu,
  IProfileList,
  SpecRequest
} from '../model/api';

/** The state of the form; an empty text is the server's default. */
export interface IChoices {
  profile: string;
  engine: 'auto' | 'cuda' | 'cpu';
  /** UUIDs. */
  gpus: string[];
  /** Whether the user has chosen GPUs; else it is the server who does. */
  isGpuChoice: boolean;
  workers: string;
  threads: string;
  pool: string;
  spillThreshold: string;
  spilling: string;
  share: boolean;
}

/** Whether a cluster could have this GPU beside those that have it. */
export function isFree(gpu: IGpu, share: boolean): boolean {
  return gpu.holders.every(holder => share && holder.share);
}

/**
 * What the form shows first.
 *
 * @param gpus - those of the machine
 * @param offer - what the server has by default
 * @param spec - what was asked for before; what differs in it from the default is filled in
 */
export function initialChoices(
  gpus: IGpu[],
  offer: IProfileList,
  spec: IClusterSpec = offer.default
): IChoices {
  const { engine, share, gpus: wanted } = spec;
  const free = gpus.filter(gpu => isFree(gpu, share));
  const chosen = free.filter(gpu => isWanted(gpu, wanted)).map(gpu => gpu.uuid);
  const isAll = wanted === 'all';
  return {
    profile: '',
    engine: engine === 'auto' && gpus.length === 0 ? 'cpu' : engine,
    gpus: chosen,
    // All of them would be refused while somebody holds one.
    isGpuChoice: isAll ? chosen.length < gpus.length : spec !== offer.default,
    workers: textOf(spec.workers, offer.default.workers),
    threads: textOf(spec.threads, offer.default.threads),
    pool: textOf(spec.pool, offer.default.pool),
    spillThreshold: textOf(spec.spill_threshold, offer.default.spill_threshold),
    spilling: textOf(spec.spilling, offer.default.spilling),
    share
  };
}

/** Whether a spec names that GPU; where it gives a count, any will do. */
function isWanted(gpu: IGpu, wanted: IClusterSpec['gpus']): boolean {
  return (
    !Array.isArray(wanted) ||
    wanted.includes(gpu.uuid) ||
    wanted.includes(gpu.index)
  );
}

/** A value as it is typed; empty where it is the default. */
function textOf(value: Amount, byDefault: Amount): string {
  return value === byDefault ? '' : String(value ?? 'none');
}

/** What is asked of the server: only what differs from its default. */
export function specOf(
  choices: IChoices,
  gpus: IGpu[],
  offer: IProfileList
): SpecRequest {
  const spec: SpecRequest = {};
  const isCpu = choices.engine === 'cpu';
  if (choices.profile) {
    return spec;
  }
  if (choices.engine !== offer.default.engine) {
    spec.engine = choices.engine;
  }
  if (!isCpu && choices.isGpuChoice) {
    const isAll = choices.gpus.length === gpus.length;
    spec.gpus = isAll ? 'all' : choices.gpus;
  }
  if (isCpu && choices.workers) {
    spec.workers = numberIn(choices.workers);
  }
  if (choices.threads) {
    spec.threads = numberIn(choices.threads);
  }
  if (!isCpu && choices.pool) {
    spec.pool = numberIn(choices.pool);
  }
  if (!isCpu && choices.spillThreshold) {
    spec.spill_threshold = numberIn(choices.spillThreshold);
  }
  if (!isCpu && choices.spilling) {
    spec.spilling = choices.spilling;
  }
  if (choices.share !== offer.default.share) {
    spec.share = choices.share;
  }
  return spec;
}

/** A number where it is one; any other text is for the server to judge. */
function numberIn(text: string): number | string {
  const number = Number(text);
  return text.trim() && Number.isFinite(number) ? number : text.trim();
}
