/**
 * The dialog that starts a cluster with options.
 */
import { Clipboard } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import { copyIcon, ReactWidget } from '@jupyterlab/ui-components';
import type { WidgetProps } from '@rjsf/utils';
import React from 'react';

import { translated } from '../errors';
import { formatBytes, Units } from '../format';
import { IClusterSpec, IGpu, IProblem, SpecRequest } from '../model/api';
import { SchemaForm, Values } from './schemaForm';
import {
  initialValues,
  IOffer,
  isAvailable,
  shownOptions,
  toMagic,
  toSpec,
  toText
} from './startOptions';
import { SubmitDialog } from './submitDialog';

interface IStartDialogOptions extends IOffer {
  /** The name of the notebook. */
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
  const { name, trans, submit } = options;
  const body = new StartBody(options);
  return new SubmitDialog({
    title: trans.__('Start a cluster for %1', name),
    body,
    submitLabel: trans.__('Start'),
    trans,
    submit: () => submit(toSpec(body.values, options))
  });
}

/** The body of the dialog, with the state of the form. */
class StartBody extends ReactWidget {
  constructor(private readonly _options: IStartDialogOptions) {
    super();
    this.values = initialValues(_options, _options.spec);
    this._problem = _options.problem ?? null;
  }

  values: Values;

  /** Show why the request was refused. */
  showProblem(problem: IProblem): void {
    this._problem = problem;
    this.update();
  }

  protected override render(): JSX.Element {
    const { schema, profiles, gpus, units, trans } = this._options;
    const { values } = this;
    const names = shownOptions(values, this._options);
    const fields = names.map(name => {
      const { title, description, type, enum: choices } = schema[name];
      const { allowed } = schema[name]['x-option'];
      const isText = type !== 'boolean' && !choices && name !== 'profile';
      const described = {
        title: translated(title, trans),
        description: translated(isText ? allowed : description, trans),
        type: type === 'boolean' ? 'boolean' : 'string',
        enum: choices
      };
      return [name, described];
    });
    const hints = names.map(name => {
      const text = defaultText(name, this._options);
      const placeholder = {
        'ui:placeholder': trans.__('default: %1', text),
        'ui:help': translated(schema[name].description, trans)
      };
      return [name, placeholder];
    });
    const { profile } = Object.fromEntries(fields);
    if (profile) {
      profile.oneOf = profiles.profiles.map(each => ({
        const: each.name,
        title: each.title
      }));
    }
    const gpuWidget = { 'ui:widget': GpuWidget };
    return (
      <div className="jp-GpuDask-form jp-mod-start">
        <SchemaForm
          fields={Object.fromEntries(fields)}
          values={values}
          problem={this._problem}
          uiSchema={{ ...Object.fromEntries(hints), gpus: gpuWidget }}
          context={{ gpus, share: values.share, units, trans }}
          onChange={values => {
            this.values = values;
            this._problem = null;
            this.update();
          }}
        />
        <MagicLine
          line={toMagic(toSpec(values, this._options), this._options)}
          trans={trans}
        />
      </div>
    );
  }

  private _problem: IProblem | null;
}

/** The default of an option, as its placeholder. */
function defaultText(
  name: string,
  { schema, profiles, units, trans }: IStartDialogOptions
): string {
  const value = profiles.default[name as keyof IClusterSpec];
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
  share: boolean;
  units: Units;
  trans: TranslationBundle;
}

/** A checkbox for each GPU, with the clusters that hold it; the value has the UUIDs with commas. */
function GpuWidget({ value, onChange, formContext }: WidgetProps): JSX.Element {
  const { gpus, share, units, trans } = formContext as IGpuContext;
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
            checked={chosen.includes(gpu.uuid)}
            disabled={!isAvailable(gpu, share)}
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
                'held by %1',
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
