/**
 * The options of the start dialog, and the request that they make.
 */
import {
  Amount,
  IClusterSpec,
  IGpu,
  IProfileList,
  SpecRequest
} from '../model/api';
import { defaultRequest } from '../model/rest';

/** The state of the form; an empty text means the server's default. */
export interface IStartOptions {
  profile: string;
  engine: 'auto' | 'cuda' | 'cpu';
  /** The UUIDs of the selected GPUs. */
  gpus: string[];
  /** Whether to request the selected GPUs; otherwise the server selects them. */
  areGpusChosen: boolean;
  workers: string;
  threads: string;
  pool: string;
  spillThreshold: string;
  spilling: string;
  memoryLimit: string;
  protocol: string;
  /** The smallest and the largest number of workers, with a comma. */
  adapt: string;
  /** Environment variables as NAME=VALUE, with spaces between them. */
  environment: string;
  share: boolean;
}

/** Whether a cluster can use a GPU, given the clusters that hold it. */
export function isAvailable(gpu: IGpu, share: boolean): boolean {
  return gpu.holders.every(holder => share && holder.share);
}

/**
 * The initial state of the form.
 *
 * @param gpus - the GPUs of the machine
 * @param profiles - the profiles and default options of the server
 * @param spec - the options of the previous cluster; those that are not defaults are filled in
 */
export function initialOptions(
  gpus: IGpu[],
  profiles: IProfileList,
  spec: IClusterSpec = profiles.default
): IStartOptions {
  const { engine, share, gpus: requested } = spec;
  const free = gpus.filter(gpu => isAvailable(gpu, share));
  const chosen = free
    .filter(gpu => isRequested(gpu, requested))
    .map(gpu => gpu.uuid);
  const isAll = requested === 'all';
  return {
    profile: '',
    engine: engine === 'auto' && gpus.length === 0 ? 'cpu' : engine,
    gpus: chosen,
    // A request for all GPUs is refused while another cluster holds one of them.
    areGpusChosen: isAll
      ? chosen.length < gpus.length
      : spec !== profiles.default,
    workers: toText(spec.workers, profiles.default.workers),
    threads: toText(spec.threads, profiles.default.threads),
    pool: toText(spec.pool, profiles.default.pool),
    spillThreshold: toText(
      spec.spill_threshold,
      profiles.default.spill_threshold
    ),
    spilling: toText(spec.spilling, profiles.default.spilling),
    memoryLimit: toText(spec.memory_limit, profiles.default.memory_limit),
    protocol: toText(spec.protocol, profiles.default.protocol),
    adapt: toText(
      spec.adapt?.join() ?? null,
      profiles.default.adapt?.join() ?? null
    ),
    environment: toText(
      toPairs(spec.environment),
      toPairs(profiles.default.environment)
    ),
    share
  };
}

/** Whether the requested GPUs include a GPU; a count includes any. */
function isRequested(gpu: IGpu, requested: IClusterSpec['gpus']): boolean {
  return (
    !Array.isArray(requested) ||
    requested.includes(gpu.uuid) ||
    requested.includes(gpu.index)
  );
}

/** A value as the user enters it; empty for the default. */
function toText(value: Amount, defaultValue: Amount): string {
  return value === defaultValue ? '' : String(value ?? 'none');
}

/** Environment variables as the user enters them. */
export function toPairs(environment: IClusterSpec['environment']): string {
  return Object.entries(environment ?? {})
    .map(([name, value]) => `${name}=${value}`)
    .join(' ');
}

/** The options of the request: those that are not defaults. */
export function toSpec(
  options: IStartOptions,
  gpus: IGpu[],
  profiles: IProfileList
): SpecRequest {
  const spec: SpecRequest = {};
  const isCpu = options.engine === 'cpu';
  if (options.profile) {
    return spec;
  }
  if (profiles.only) {
    // The server refuses other options, a choice of GPUs included.
    return defaultRequest(profiles.default);
  }
  if (options.engine !== profiles.default.engine) {
    spec.engine = options.engine;
  }
  if (!isCpu && options.areGpusChosen) {
    const isAll = options.gpus.length === gpus.length;
    spec.gpus = isAll ? 'all' : options.gpus;
  }
  if (isCpu && options.workers) {
    spec.workers = parseNumber(options.workers);
  }
  if (options.threads) {
    spec.threads = parseNumber(options.threads);
  }
  if (!isCpu && options.pool) {
    spec.pool = parseNumber(options.pool);
  }
  if (!isCpu && options.spillThreshold) {
    spec.spill_threshold = parseNumber(options.spillThreshold);
  }
  if (!isCpu && options.spilling) {
    spec.spilling = options.spilling;
  }
  if (options.memoryLimit) {
    spec.memory_limit = parseNumber(options.memoryLimit);
  }
  if (!isCpu && options.protocol) {
    spec.protocol = options.protocol;
  }
  if (options.adapt) {
    spec.adapt = options.adapt;
  }
  if (options.environment) {
    // A value may contain spaces.
    spec.environment = options.environment.trim().split(/\s+(?=\S+=)/);
  }
  if (options.share !== profiles.default.share) {
    spec.share = options.share;
  }
  return spec;
}

/** Convert a text to a number if possible; the server validates other texts. */
function parseNumber(text: string): number | string {
  const number = Number(text);
  return text.trim() && Number.isFinite(number) ? number : text.trim();
}

/**
 * The line that starts the same cluster in a notebook.
 *
 * @param spec - the options of the request
 * @param profile - the name of the profile, or empty
 * @param gpus - the GPUs of the machine, whose indices are shorter than their UUIDs
 * @returns null if there is none, because no GPU is selected
 */
export function toMagic(
  spec: SpecRequest,
  profile: string,
  gpus: IGpu[]
): string | null {
  const indexOf = (name: unknown): unknown =>
    gpus.find(gpu => gpu.uuid === name)?.index ?? name;
  const words = ['%gpudask start'];
  const { engine, workers, gpus: chosen, share, ...others } = spec;
  if (Array.isArray(chosen) && chosen.length === 0) {
    return null;
  }
  if (profile) {
    words.push(`--profile ${profile}`);
  }
  if (engine === 'cpu') {
    words.push(workers ? `--cpu ${workers}` : '--cpu');
  } else if (engine) {
    words.push(`--engine ${engine}`);
  }
  if (Array.isArray(chosen)) {
    // A single number would be a count.
    const list = chosen.map(indexOf).join(',');
    words.push(`--gpus ${chosen.length === 1 ? `${list},` : list}`);
  } else if (chosen) {
    words.push(`--gpus ${chosen}`);
  }
  Object.entries(others).forEach(([name, value]) =>
    [value].flat().forEach(each => {
      words.push(`--${name.replace(/_/g, '-')} ${quoted(String(each))}`);
    })
  );
  if (share !== undefined) {
    words.push(`--share ${share ? 'yes' : 'no'}`);
  }
  return words.join(' ');
}

/** A value as it is typed in a line. */
function quoted(text: string): string {
  return /[\s"'\\]/.test(text) ? `"${text.replace(/(["\\])/g, '\\$1')}"` : text;
}
