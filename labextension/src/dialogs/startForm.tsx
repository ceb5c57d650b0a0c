import { TranslationBundle } from '@jupyterlab/translation';
import React, { useId } from 'react';

import { formatAmount, formatPart, Units } from '../format';
import { IGpu, IProblem, IProfileList } from '../model/api';
import { IChoices, isFree } from './startOptions';

interface IStartFormProps {
  choices: IChoices;
  gpus: IGpu[];
  offer: IProfileList;
  /** What the server says against it. */
  problem: IProblem | null;
  units: Units;
  trans: TranslationBundle;
  onChange: (choices: IChoices) => void;
}

/** The options of a cluster; a field that is left empty is as the server has it by default. */
export function StartForm(props: IStartFormProps): JSX.Element {
  const { choices, offer, problem, trans, onChange } = props;
  const set = (changes: Partial<IChoices>): void =>
    onChange({ ...choices, ...changes });
  const fieldIsHere = problem !== null && isShown(problem.field, choices);
  return (
    <div className="jp-GpuDask-form">
      {offer.profiles.length > 0 && (
        <Field label={trans.__('Profile')} field="profile" problem={problem}>
          {aria => (
            <select
              {...aria}
              value={choices.profile}
              onChange={event => set({ profile: event.target.value })}
            >
              <option value="">{trans.__('none, choose here')}</option>
              {offer.profiles.map(profile => (
                <option key={profile.name} value={profile.name}>
                  {profile.title}
                </option>
              ))}
            </select>
          )}
        </Field>
      )}
      {!choices.profile && <Options {...props} set={set} />}
      {problem && !fieldIsHere && (
        <p className="jp-GpuDask-problem" role="alert">
          {`${problem.message} ${problem.fix}`.trim()}
        </p>
      )}
    </div>
  );
}

interface IOptionsProps extends IStartFormProps {
  set: (changes: Partial<IChoices>) => void;
}

function Options(props: IOptionsProps): JSX.Element {
  const { choices, offer, problem, units, trans, set } = props;
  const isCpu = choices.engine === 'cpu';
  const common = { choices, problem, set };
  const byDefault = (value: string): string => trans.__('default: %1', value);
  return (
    <>
      <Field label={trans.__('Runs on')} field="engine" problem={problem}>
        {aria => (
          <select
            {...aria}
            value={choices.engine}
            onChange={event =>
              set({ engine: event.target.value as IChoices['engine'] })
            }
          >
            <option value="auto">
              {trans.__('GPUs, or the CPU where there are none')}
            </option>
            <option value="cuda">{trans.__('GPUs only')}</option>
            <option value="cpu">{trans.__('CPU stand-in')}</option>
          </select>
        )}
      </Field>
      {!isCpu && <GpuChoice {...props} />}
      {isCpu && (
        <TextField
          {...common}
          label={trans.__('Workers')}
          name="workers"
          field="workers"
          placeholder={byDefault(trans.__('by the cores'))}
        />
      )}
      {!isCpu && (
        <TextField
          {...common}
          label={trans.__('Memory pool')}
          name="pool"
          field="pool"
          placeholder={byDefault(formatAmount(offer.default.pool, units))}
          hint={trans.__(
            'A fraction such as 0.5, a size such as 20GB, or none'
          )}
        />
      )}
      {!isCpu && (
        <Field label={trans.__('Spilling')} field="spilling" problem={problem}>
          {aria => (
            <select
              {...aria}
              value={choices.spilling}
              onChange={event => set({ spilling: event.target.value })}
            >
              <option value="">{byDefault(offer.default.spilling)}</option>
              <option value="dask">{trans.__('Dask: results of tasks')}</option>
              <option value="cudf">{trans.__('cuDF: its buffers')}</option>
              <option value="off">{trans.__('off')}</option>
            </select>
          )}
        </Field>
      )}
      {!isCpu && choices.spilling !== 'off' && (
        <TextField
          {...common}
          label={trans.__('Spill above')}
          name="spillThreshold"
          field="spill_threshold"
          placeholder={byDefault(
            formatAmount(offer.default.spill_threshold, units)
          )}
          hint={trans.__('Of device memory: a fraction, a size, or none')}
        />
      )}
      <TextField
        {...common}
        label={trans.__('Threads')}
        name="threads"
        field="threads"
        placeholder={byDefault(
          offer.default.threads?.toString() ??
            (isCpu ? trans.__('by the cores') : '1')
        )}
      />
    </>
  );
}

/** The GPUs, each with who holds it. */
function GpuChoice({
  choices,
  gpus,
  problem,
  units,
  trans,
  set
}: IOptionsProps): JSX.Element {
  const id = useId();
  const hasProblem = problem?.field === 'gpus';
  const choose = (uuid: string, isChosen: boolean): void => {
    const others = choices.gpus.filter(each => each !== uuid);
    set({
      gpus: isChosen ? [...others, uuid] : others,
      isGpuChoice: true
    });
  };
  return (
    <fieldset
      className="jp-GpuDask-field"
      aria-describedby={hasProblem ? `${id}-problem` : undefined}
    >
      <legend>{trans.__('GPUs')}</legend>
      {gpus.length === 0 && (
        <p className="jp-GpuDask-quiet">{trans.__('There are none here.')}</p>
      )}
      {gpus.map(gpu => (
        <label key={gpu.uuid} className="jp-GpuDask-gpuChoice">
          <input
            type="checkbox"
            checked={choices.gpus.includes(gpu.uuid)}
            disabled={!isFree(gpu, choices.share)}
            onChange={event => choose(gpu.uuid, event.target.checked)}
          />
          <span>
            {gpu.index} {gpu.name}
          </span>
          <span className="jp-GpuDask-quiet">{whoIsOn(gpu, units, trans)}</span>
        </label>
      ))}
      {gpus.length > 0 && (
        <label className="jp-GpuDask-gpuChoice">
          <input
            type="checkbox"
            checked={choices.share}
            onChange={event => set({ share: event.target.checked })}
          />
          <span>{trans.__('Share them with other clusters that share')}</span>
        </label>
      )}
      {hasProblem && <ProblemText id={`${id}-problem`} problem={problem} />}
    </fieldset>
  );
}

function whoIsOn(gpu: IGpu, units: Units, trans: TranslationBundle): string {
  if (gpu.holders.length > 0) {
    const names = gpu.holders.map(holder => holder.name).join(', ');
    return trans.__('held by %1', names);
  }
  if (gpu.memory_used === null || gpu.memory_total === null) {
    return trans.__('free');
  }
  const { memory_used: used, memory_total: total } = gpu;
  return gpu.users.length > 0 || gpu.hidden_use
    ? trans.__('%1 in use', formatPart(used, total, trans, units))
    : trans.__('%1 free', formatPart(total - used, total, trans, units));
}

interface ITextFieldProps {
  choices: IChoices;
  problem: IProblem | null;
  set: (changes: Partial<IChoices>) => void;
  label: string;
  name: 'workers' | 'threads' | 'pool' | 'spillThreshold';
  field: string;
  placeholder: string;
  hint?: string;
}

function TextField(props: ITextFieldProps): JSX.Element {
  const { choices, problem, set, label, name, field, placeholder } = props;
  return (
    <Field label={label} field={field} problem={problem} hint={props.hint}>
      {aria => (
        <input
          {...aria}
          type="text"
          autoComplete="off"
          spellCheck={false}
          value={choices[name]}
          placeholder={placeholder}
          onChange={event => set({ [name]: event.target.value })}
        />
      )}
    </Field>
  );
}

interface IFieldProps {
  label: string;
  /** Its name at the server. */
  field: string;
  problem: IProblem | null;
  hint?: string;
  children: (aria: {
    id: string;
    'aria-invalid': boolean;
    'aria-describedby': string;
  }) => JSX.Element;
}

/** A label, its input, and below it what is wrong or what may be written. */
function Field(props: IFieldProps): JSX.Element {
  const { label, field, problem, hint, children } = props;
  const id = useId();
  const hasProblem = problem?.field === field;
  return (
    <div className="jp-GpuDask-field">
      <label htmlFor={id}>{label}</label>
      {children({
        id,
        'aria-invalid': hasProblem,
        'aria-describedby': `${id}-hint`
      })}
      {hasProblem ? (
        <ProblemText id={`${id}-hint`} problem={problem} />
      ) : (
        hint && (
          <p id={`${id}-hint`} className="jp-GpuDask-quiet">
            {hint}
          </p>
        )
      )}
    </div>
  );
}

function ProblemText({
  id,
  problem
}: {
  id: string;
  problem: IProblem;
}): JSX.Element {
  return (
    <p id={id} className="jp-GpuDask-problem" role="alert">
      {`${problem.message} ${problem.fix}`.trim()}
    </p>
  );
}

const GPU_FIELDS = ['gpus', 'pool', 'spilling', 'spill_threshold'];

/** Whether the form has that field now. */
function isShown(field: string, choices: IChoices): boolean {
  if (choices.profile) {
    return field === 'profile';
  }
  if (choices.engine === 'cpu') {
    return ['engine', 'workers', 'threads'].includes(field);
  }
  return ['engine', 'threads', ...GPU_FIELDS].includes(field);
}
