import React, { useId } from 'react';

import { IProblem } from '../model/api';

interface IFieldProps {
  label: string;
  /** The name of the option in requests. */
  field: string;
  problem: IProblem | null;
  hint?: string;
  children: (aria: {
    id: string;
    'aria-invalid': boolean;
    'aria-describedby': string;
  }) => JSX.Element;
}

/** A label and an input, with an error or a hint below. */
export function Field(props: IFieldProps): JSX.Element {
  const { label, field, problem, hint, children } = props;
  const id = useId();
  const own = problemOf(field, problem);
  return (
    <div className="jp-GpuDask-field">
      <label htmlFor={id}>{label}</label>
      {children({
        id,
        'aria-invalid': own !== null,
        'aria-describedby': `${id}-hint`
      })}
      {own ? (
        <FieldError id={`${id}-hint`} problem={own} />
      ) : (
        <p id={`${id}-hint`} className="jp-GpuDask-secondary">
          {hint}
        </p>
      )}
    </div>
  );
}

/** The part of a problem that is about a field. */
export function problemOf(
  field: string,
  problem: IProblem | null
): IProblem | null {
  const all = problem ? [problem, ...(problem.others ?? [])] : [];
  return all.find(each => each.field === field) ?? null;
}

/** The message and the fix of a problem. */
export function FieldError({
  id,
  problem
}: {
  id?: string;
  problem: IProblem;
}): JSX.Element {
  return (
    <p id={id} className="jp-GpuDask-error" role="alert">
      {`${problem.message} ${problem.fix}`.trim()}
    </p>
  );
}
