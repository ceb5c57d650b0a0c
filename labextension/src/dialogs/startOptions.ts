/**
 * The options of the start dialog, as the server's schema describes them, and the request that they make.
 */
import {
  IClusterSpec,
  IGpu,
  IPresetList,
  mayHaveGpus,
  SpecRequest
} from '../model/api';
import { defaultRequest, IOptionSchema } from '../model/rest';
import { Values } from './schemaForm';

/** What can be started. */
export interface IOffer {
  /** The options by name. */
  schema: { [name: string]: IOptionSchema };
  /** The presets and the default options. */
  presets: IPresetList;
  gpus: IGpu[];
}

/** The options at the start of the form; the others follow in the order of the schema. */
export const FIRST = ['preset', 'gpus', 'engine', 'workers', 'share', 'wait'];

/** Whether a cluster can use a GPU, perhaps later, given the clusters that have reserved it. */
export function isAvailable(
  gpu: IGpu,
  { share, wait }: { share: unknown; wait: unknown }
): boolean {
  return Boolean(wait) || gpu.holders.every(holder => share && holder.share);
}

/**
 * The initial values of the form.
 *
 * @param offer - what can be started
 * @param spec - the options of the previous cluster
 */
export function initialValues(
  { schema, presets, gpus }: IOffer,
  spec: IClusterSpec = presets.default
): Values {
  const values: Values = {};
  Object.entries(spec).forEach(([name, value]) => {
    const text = toText(value);
    if (schema[name]?.title && text !== toText(initial(presets, name))) {
      values[name] = typeof value === 'boolean' ? value : text;
    }
  });
  if (spec.engine === 'auto' && gpus.length === 0) {
    values.engine = 'cpu';
  }
  const chosen = gpus.filter(
    gpu => isAvailable(gpu, spec) && isRequested(gpu, spec.gpus)
  );
  // A request for all GPUs is refused while another cluster has reserved one of them. If none is available, those that
  // are requested can be waited for.
  const isAll = spec.gpus === 'all' && chosen.length === gpus.length;
  if (chosen.length > 0 && !isAll && (values.gpus || spec.gpus === 'all')) {
    values.gpus = chosen.map(({ uuid }) => uuid).join();
  }
  return values;
}

/** Whether the requested GPUs include a GPU; a count includes any. */
function isRequested(gpu: IGpu, requested: IClusterSpec['gpus']): boolean {
  return (
    !Array.isArray(requested) ||
    requested.includes(gpu.uuid) ||
    requested.includes(gpu.index)
  );
}

function initial({ default: spec }: IPresetList, name: string): unknown {
  return spec[name as keyof IClusterSpec];
}

/** A value as the user enters it. */
export function toText(value: unknown): string {
  if (value === null) {
    return 'none';
  }
  return typeof value !== 'object' || Array.isArray(value)
    ? String(value)
    : Object.entries(value as object)
        .map(pair => pair.join('='))
        .join(' ');
}

/** The names of the options that the form shows: a preset replaces the others, and some are those of one engine. */
export function shownOptions(
  values: Values,
  { schema, presets }: IOffer
): string[] {
  const engine = values.engine ?? presets.default.engine;
  const isShown = (name: string): boolean => {
    const { title, 'x-option': option } = schema[name];
    return name === 'preset'
      ? presets.presets.length > 0
      : Boolean(title) &&
          !values.preset &&
          !presets.only &&
          (!option.engine ||
            mayHaveGpus(option.engine) === mayHaveGpus(engine));
  };
  const place = (name: string): number =>
    FIRST.includes(name) ? FIRST.indexOf(name) : FIRST.length;
  return Object.keys(schema)
    .filter(isShown)
    .sort((one, other) => place(one) - place(other));
}

/** The options of the request: those that are not defaults. */
export function toSpec(values: Values, offer: IOffer): SpecRequest {
  const { schema, presets } = offer;
  if (presets.only && !values.preset) {
    // The server refuses other options, a choice of GPUs included.
    return defaultRequest(presets.default);
  }
  const changed = shownOptions(values, offer).flatMap(name => {
    const value = values[name];
    const isDefault = value === undefined || value === initial(presets, name);
    return isDefault ? [] : [[name, parsed(value, schema[name])]];
  });
  return Object.fromEntries(changed);
}

/** A number if possible, and a list of pairs; the server validates other texts. */
function parsed(
  value: string | boolean,
  { type, anyOf = [] }: IOptionSchema
): SpecRequest[string] {
  if (typeof value === 'boolean') {
    return value;
  }
  const text = value.trim();
  if ([type, ...anyOf.map(each => each.type)].includes('object')) {
    // A value may contain spaces.
    return text.split(/\s+(?=\S+=)/);
  }
  return text && Number.isFinite(Number(text)) ? Number(text) : text;
}

/**
 * The line that starts the same cluster in a notebook; null if there is none, because no GPU is selected.
 *
 * @param spec - the options of the request
 * @param offer - what can be started; the indices of GPUs are shorter than their UUIDs
 */
export function toMagic(
  spec: SpecRequest,
  { schema, gpus }: IOffer
): string | null {
  const indexOf = (name: string): unknown =>
    gpus.find(gpu => gpu.uuid === name)?.index ?? name;
  const typed = (name: string, value: unknown): string => {
    if (typeof value === 'boolean') {
      return value ? 'yes' : 'no';
    }
    const text = String(value);
    if (name !== 'gpus') {
      return /[\s"'\\]/.test(text)
        ? `"${text.replace(/(["\\])/g, '\\$1')}"`
        : text;
    }
    const list = text.split(',').map(indexOf);
    // A single number would be a count.
    return typeof list[0] === 'number' && list.length === 1
      ? `${list[0]},`
      : list.join();
  };
  const options = Object.entries(spec).flatMap(([name, value]) =>
    [value]
      .flat()
      .map(each => `${schema[name]['x-option'].flag} ${typed(name, each)}`)
  );
  return spec.gpus === '' ? null : ['%gpudask start', ...options].join(' ');
}
