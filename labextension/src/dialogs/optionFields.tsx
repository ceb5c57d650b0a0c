/**
 * Fields for the options of a cluster.
 */
import React from 'react';

import { IProblem } from '../model/api';
import { Field } from './field';
import { IStartOptions } from './startOptions';

interface IOptionFieldProps {
  options: IStartOptions;
  problem: IProblem | null;
  set: (changes: Partial<IStartOptions>) => void;
  label: string;
}

interface ISelectFieldProps extends IOptionFieldProps {
  /** The name of the option in the form, and in requests. */
  name: 'engine' | 'profile' | 'protocol' | 'spilling';
  /** The values and their labels. */
  choices: [string, string][];
}

/** A list of choices. */
export function SelectField(props: ISelectFieldProps): JSX.Element {
  const { options, problem, set, label, name, choices } = props;
  return (
    <Field label={label} field={name} problem={problem}>
      {aria => (
        <select
          {...aria}
          value={options[name]}
          onChange={event => set({ [name]: event.target.value })}
        >
          {choices.map(([value, text]) => (
            <option key={value} value={value}>
              {text}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

interface ITextFieldProps extends IOptionFieldProps {
  /** The name of the option in the form. */
  name:
    | 'workers'
    | 'threads'
    | 'pool'
    | 'spillThreshold'
    | 'memoryLimit'
    | 'adapt'
    | 'environment';
  /** The name of the option in requests. */
  field: string;
  placeholder: string;
  hint?: string;
}

/** A line of text; empty for the server's default, which is the placeholder. */
export function TextField(props: ITextFieldProps): JSX.Element {
  const { options, problem, set, label, name, field, placeholder } = props;
  return (
    <Field label={label} field={field} problem={problem} hint={props.hint}>
      {aria => (
        <input
          {...aria}
          type="text"
          autoComplete="off"
          spellCheck={false}
          value={options[name]}
          placeholder={placeholder}
          onChange={event => set({ [name]: event.target.value })}
        />
      )}
    </Field>
  );
}
