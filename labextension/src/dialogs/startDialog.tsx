/**
 * The dialog that starts a cluster with options.
 */
import { Clipboard } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import { copyIcon } from '@jupyterlab/ui-components';
import type { RJSFSchema, WidgetProps } from '@rjsf/utils';
import React from 'react';

import { translated } from '../errors';
import { formatBytes, Units } from '../format';
import { IClusterSpec, IGpu, IProblem, SpecRequest } from '../model/api';
import { ResponseError } from '../model/rest';
import { SchemaForm, Values } from './schemaForm';
import {
  FIRST,
  initialValues,
  IOffer,
  isAvailable,
  shownOptions,
  toMagic,
  toSpec,
  toText
} from './startOptions';
import { IFormProps, SubmitDialog } from './submitDialog';

interface IStartDialogOptions extends IOffer {
  /** The name of the notebook; empty for a shared cluster. */
  name: string;
  /** The options of the previous cluster, and why it was refused. */
  spec?: IClusterSpec;
  problem?: IProblem | null;
  units: Units;
  trans: TranslationBundle;
  /** Start the cluster; rejects if the server refuses the options. */
  submit: (spec: SpecRequest) => Promise<void>;
}

/** Create the dialog. */
export function startDialog(options: IStartDialogOptions): SubmitDialog {
  const { name, spec, problem, trans, submit } = options;
  return new SubmitDialog({
    title: name
      ? trans.__('Start a cluster for %1', name)
      : trans.__('Start a shared cluster'),
    values: initialValues(options, spec),
    problem,
    render: props => <StartForm {...props} options={options} />,
    submitLabel: trans.__('Start'),
    trans,
    submit: async values => {
      const spec = toSpec(values, options);
      if (isNoneLeft(values, options)) {
        throw new ResponseError(400, {
          message: trans.__('All GPUs are reserved.'),
          fix: trans.__('Wait for them or share them, or run on the CPU.'),
          kind: '',
          field: 'gpus'
        });
      }
      if (spec.gpus === '') {
        throw new ResponseError(400, {
          message: trans.__('No GPU is selected.'),
          fix: trans.__('Select at least one, or run on the CPU.'),
          kind: '',
          field: 'gpus'
        });
      }
      await submit(spec);
    }
  });
}

/** Whether the cluster needs GPUs, and others have reserved all. */
function isNoneLeft(
  { engine, preset, share, wait }: Values,
  { gpus }: IOffer
): boolean {
  return (
    engine !== 'cpu' &&
    !preset &&
    gpus.length > 0 &&
    !gpus.some(gpu => isAvailable(gpu, { share, wait }))
  );
}

/** The fields of the options, and the line that starts the same cluster. */
function StartForm({
  options,
  ...form
}: IFormProps & { options: IStartDialogOptions }): JSX.Element {
  const { schema, presets, gpus, units, trans } = options;
  const { values } = form;
  // An option that the previous cluster had is not folded.
  const given = initialValues(options, options.spec);
  const fields: { [name: string]: RJSFSchema } = {};
  const uiSchema: { [name: string]: object } = {};
  for (const name of shownOptions(values, options)) {
    const { title, description, type, enum: choices } = schema[name];
    const { allowed } = schema[name]['x-option'];
    const isText = type !== 'boolean' && !choices && name !== 'preset';
    fields[name] = {
      title: translated(title, trans),
      description: translated(isText ? allowed : description, trans),
      type: type === 'boolean' ? 'boolean' : 'string',
      enum: choices
    };
    uiSchema[name] = {
      'ui:placeholder': trans.__('default: %1', defaultText(name, options)),
      'ui:help': translated(description, trans)
    };
  }
  if (fields.preset) {
    fields.preset.oneOf = presets.presets.map(each => ({
      const: each.name,
      title: each.title
    }));
  }
  uiSchema.gpus = { 'ui:widget': GpuWidget };
  return (
    <div className="jp-GpuDask-form jp-mod-start">
      <SchemaForm
        {...form}
        fields={fields}
        uiSchema={uiSchema}
        context={{
          gpus,
          more: Object.keys(fields).filter(
            name => !FIRST.includes(name) && !(name in given)
          ),
          moreLabel: trans.__('More options'),
          taken: { share: values.share, wait: values.wait },
          units,
          trans
        }}
      />
      {options.name && (
        <MagicLine
          line={toMagic(toSpec(values, options), options)}
          {...{ trans }}
        />
      )}
    </div>
  );
}

/** The default of an option, as its placeholder. */
function defaultText(
  name: string,
  { schema, presets, units, trans }: IStartDialogOptions
): string {
  const value = presets.default[name as keyof IClusterSpec];
  if (typeof value === 'number' && value >= 1e6) {
    return formatBytes(value, units);
  }
  const isNone = schema[name]['x-option'].words.includes('none');
  return value === null && !isNone
    ? trans.__('automatic')
    : toText(value) || trans.__('none');
}

interface IGpuContext {
  gpus: IGpu[];
  /** Whether GPUs that others have reserved are shared or waited for. */
  taken: { share: unknown; wait: unknown };
  units: Units;
  trans: TranslationBundle;
}

/** A checkbox for each GPU, with the clusters that have reserved it; the value has the UUIDs with commas. */
function GpuWidget({ value, onChange, formContext }: WidgetProps): JSX.Element {
  const { gpus, taken, units, trans } = formContext as IGpuContext;
  const all = gpus.map(({ uuid }) => uuid).join();
  const chosen = String(value ?? all).split(',');
  const select = (uuid: string): void =>
    onChange(
      gpus
        .map(gpu => gpu.uuid)
        .filter(each => chosen.includes(each) !== (each === uuid))
        .join()
    );
  return (
    <div className="jp-GpuDask-gpuOptions">
      {gpus.length === 0 && trans.__('This machine has no GPU.')}
      {gpus.map(gpu => (
        <label key={gpu.uuid} className="jp-GpuDask-gpuOption">
          <input
            type="checkbox"
            checked={chosen.includes(gpu.uuid) && isAvailable(gpu, taken)}
            disabled={!isAvailable(gpu, taken)}
            onChange={() => select(gpu.uuid)}
          />
          <span>
            {gpu.index} {gpu.name}
          </span>
          {gpu.memory_used !== null && gpu.memory_total !== null && (
            <span className="jp-GpuDask-secondary">
              {trans.__(
                '%1 free',
                formatBytes(gpu.memory_total - gpu.memory_used, units)
              )}
            </span>
          )}
          {gpu.holders.length > 0 && (
            <span className="jp-GpuDask-secondary jp-GpuDask-gpuHolders">
              {trans.__(
                'reserved by %1',
                gpu.holders.map(holder => holder.name).join(', ')
              )}
            </span>
          )}
        </label>
      ))}
    </div>
  );
}

interface IMagicLineProps {
  line: string | null;
  trans: TranslationBundle;
}

/** The line that starts the same cluster in a notebook, or why there is none. */
function MagicLine({ line, trans }: IMagicLineProps): JSX.Element {
  const label = trans.__('Copy the line');
  return (
    <div className="jp-GpuDask-magic">
      <span className="jp-GpuDask-secondary">{trans.__('In a notebook:')}</span>
      <code className="jp-GpuDask-magicLine">
        {line ?? trans.__('no line, because no GPU is selected')}
      </code>
      <button
        type="button"
        className="jp-GpuDask-button jp-mod-icon"
        aria-label={label}
        title={label}
        disabled={line === null}
        onClick={() => line !== null && Clipboard.copyToSystem(line)}
      >
        <copyIcon.react tag="span" aria-hidden="true" />
      </button>
    </div>
  );
}
