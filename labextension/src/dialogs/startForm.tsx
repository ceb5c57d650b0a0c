import { Clipboard } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import { copyIcon } from '@jupyterlab/ui-components';
import React from 'react';

import { formatAmount, Units } from '../format';
import { IGpu, IProblem, IProfileList } from '../model/api';
import { FieldError } from './field';
import { GpuField } from './gpuField';
import { SelectField, TextField } from './optionFields';
import { IStartOptions, toMagic, toPairs, toSpec } from './startOptions';

interface IStartFormProps {
  options: IStartOptions;
  gpus: IGpu[];
  profiles: IProfileList;
  /** Why the server refused the options. */
  problem: IProblem | null;
  units: Units;
  trans: TranslationBundle;
  onChange: (options: IStartOptions) => void;
}

/** The form of the start dialog; an empty field means the server's default. */
export function StartForm(props: IStartFormProps): JSX.Element {
  const { options, profiles, problem, trans, onChange } = props;
  const set = (changes: Partial<IStartOptions>): void =>
    onChange({ ...options, ...changes });
  const hidden = problem
    ? [problem, ...(problem.others ?? [])].filter(
        each => !isShown(each.field, options)
      )
    : [];
  return (
    <div className="jp-GpuDask-form">
      {profiles.profiles.length > 0 && (
        <SelectField
          {...{ options, problem, set }}
          label={trans.__('Profile')}
          name="profile"
          choices={[
            ['', profiles.only ? trans.__('default') : trans.__('none')],
            ...profiles.profiles.map(({ name, title }): [string, string] => [
              name,
              title
            ])
          ]}
        />
      )}
      {!options.profile && !profiles.only && <Options {...props} set={set} />}
      <div className="jp-GpuDask-problems">
        {hidden.map(each => (
          <FieldError key={each.field} problem={each} />
        ))}
      </div>
      <MagicLine {...props} />
    </div>
  );
}

interface IOptionsProps extends IStartFormProps {
  set: (changes: Partial<IStartOptions>) => void;
}

/** The fields that a profile replaces. */
function Options(props: IOptionsProps): JSX.Element {
  const { options, profiles, problem, units, trans, set } = props;
  const isCpu = options.engine === 'cpu';
  const common = { options, problem, set };
  const defaultText = (value: string): string => trans.__('default: %1', value);
  return (
    <>
      <SelectField
        {...common}
        label={trans.__('Runs on')}
        name="engine"
        choices={[
          ['auto', trans.__('GPUs, or the CPU if there are none')],
          ['cuda', trans.__('GPUs only')],
          ['cpu', trans.__('CPU stand-in')]
        ]}
      />
      {!isCpu && <GpuField {...props} />}
      <div className="jp-GpuDask-columns">
        {isCpu && (
          <TextField
            {...common}
            label={trans.__('Workers')}
            name="workers"
            field="workers"
            placeholder={defaultText(trans.__('by number of cores'))}
          />
        )}
        {!isCpu && (
          <TextField
            {...common}
            label={trans.__('Memory pool')}
            name="pool"
            field="pool"
            placeholder={defaultText(
              formatAmount(profiles.default.pool, units)
            )}
            hint={trans.__(
              'A fraction such as 0.5, a size such as 20GB, or none'
            )}
          />
        )}
        {!isCpu && (
          <SelectField
            {...common}
            label={trans.__('Spilling')}
            name="spilling"
            choices={[
              ['', defaultText(profiles.default.spilling)],
              ['dask', trans.__('Dask (task results)')],
              ['cudf', trans.__('cuDF (buffers)')],
              ['off', trans.__('off')]
            ]}
          />
        )}
        {!isCpu && options.spilling !== 'off' && (
          <TextField
            {...common}
            label={trans.__('Spill above')}
            name="spillThreshold"
            field="spill_threshold"
            placeholder={defaultText(
              formatAmount(profiles.default.spill_threshold, units)
            )}
            hint={trans.__('A fraction of device memory, a size, or none')}
          />
        )}
        <TextField
          {...common}
          label={trans.__('Threads')}
          name="threads"
          field="threads"
          placeholder={defaultText(
            profiles.default.threads?.toString() ??
              (isCpu ? trans.__('by number of cores') : '1')
          )}
        />
        <TextField
          {...common}
          label={trans.__('Host memory')}
          name="memoryLimit"
          field="memory_limit"
          placeholder={defaultText(
            formatAmount(profiles.default.memory_limit, units)
          )}
          hint={trans.__('Of each worker: a fraction, a size, none or auto')}
        />
        {!isCpu && (
          <SelectField
            {...common}
            label={trans.__('Protocol')}
            name="protocol"
            choices={[
              ['', defaultText(profiles.default.protocol)],
              ['unix', trans.__('Unix sockets')],
              ['tcp', trans.__('TCP, with TLS')],
              ['ucx', trans.__('UCX, without TLS')]
            ]}
          />
        )}
        <TextField
          {...common}
          label={trans.__('Adaptive')}
          name="adapt"
          field="adapt"
          placeholder={defaultText(profiles.default.adapt?.join() ?? 'none')}
          hint={trans.__('Fewest and most workers, such as 1,4, or none')}
        />
        <TextField
          {...common}
          label={trans.__('Environment')}
          name="environment"
          field="environment"
          placeholder={defaultText(
            toPairs(profiles.default.environment) || 'none'
          )}
          hint={trans.__(
            'Variables of the workers as NAME=VALUE, with spaces between them'
          )}
        />
      </div>
    </>
  );
}

/** The line that starts the same cluster in a notebook, or why there is none. */
function MagicLine(props: IStartFormProps): JSX.Element {
  const { options, gpus, profiles, trans } = props;
  const spec = toSpec(options, gpus, profiles);
  const line = toMagic(spec, options.profile, gpus);
  return (
    <div className="jp-GpuDask-magic">
      <span className="jp-GpuDask-secondary">{trans.__('In a notebook:')}</span>
      {line === null ? (
        <span className="jp-GpuDask-magicLine jp-GpuDask-secondary">
          {trans.__('no line, because no GPU is selected')}
        </span>
      ) : (
        <code className="jp-GpuDask-magicLine">{line}</code>
      )}
      <button
        type="button"
        className="jp-GpuDask-button jp-mod-icon"
        aria-label={trans.__('Copy the line')}
        title={trans.__('Copy the line')}
        disabled={line === null}
        onClick={() => line !== null && Clipboard.copyToSystem(line)}
      >
        <copyIcon.react tag="span" aria-hidden="true" />
      </button>
    </div>
  );
}

const COMMON_FIELDS = [
  'engine',
  'threads',
  'memory_limit',
  'adapt',
  'environment'
];
const GPU_FIELDS = ['gpus', 'pool', 'spilling', 'spill_threshold', 'protocol'];

/** Whether the form shows a field. */
function isShown(field: string, options: IStartOptions): boolean {
  if (options.profile) {
    return field === 'profile';
  }
  if (options.engine === 'cpu') {
    return ['workers', ...COMMON_FIELDS].includes(field);
  }
  return [...COMMON_FIELDS, ...GPU_FIELDS].includes(field);
}
