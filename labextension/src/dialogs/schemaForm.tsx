/**
 * Forms that are made of a JSON schema. The server validates the values, and names the field of a problem.
 */
import { FormComponent } from '@jupyterlab/ui-components';
import { ReadonlyJSONObject } from '@lumino/coreutils';
import type {
  FieldTemplateProps,
  ObjectFieldTemplateProps,
  RJSFSchema,
  ValidatorType,
  WidgetProps
} from '@rjsf/utils';
import React, { useState } from 'react';

import { IProblem } from '../model/api';

const PREFIX = 'jp-GpuDask-option';

const VALIDATOR: ValidatorType = {
  isValid: () => true,
  rawValidation: () => ({}),
  toErrorList: () => [],
  validateFormData: () => ({ errors: [], errorSchema: {} })
};

/** The values of a form; one that is not set stands for the default of the server. */
export type Values = { [name: string]: string | boolean | undefined };

interface ISchemaFormProps {
  /** The fields: a boolean is a checkbox, an `enum` a list, and anything else a line of text. */
  fields: { [name: string]: RJSFSchema };
  values: Values;
  problem: IProblem | null;
  onChange: (values: Values) => void;
  /** Placeholders, help texts and widgets by field. */
  uiSchema?: React.ComponentProps<typeof FormComponent>['uiSchema'];
  /** What the widgets need. */
  context?: object;
}

/** A form with the problem of each field below it, and those of others at its end. */
export function SchemaForm(props: ISchemaFormProps): JSX.Element {
  const { fields, values, problem, onChange, uiSchema, context } = props;
  const others = problemsOf(problem).filter(({ field }) => !(field in fields));
  return (
    <>
      <FormComponent
        tagName="div"
        idPrefix={PREFIX}
        schema={{ type: 'object', properties: fields }}
        uiSchema={uiSchema}
        formData={values as ReadonlyJSONObject}
        formContext={{ ...context, problem }}
        validator={VALIDATOR}
        templates={TEMPLATES}
        widgets={WIDGETS}
        onChange={({ formData }) => onChange(formData as Values)}
      />
      <div className="jp-GpuDask-problems">
        {others.map(each => (
          <p key={each.field} className="jp-GpuDask-error" role="alert">
            {textOf(each)}
          </p>
        ))}
      </div>
    </>
  );
}

function problemsOf(problem: IProblem | null): IProblem[] {
  return problem ? [problem, ...(problem.others ?? [])] : [];
}

function textOf({ message, fix }: IProblem): string {
  return `${message} ${fix}`.trim();
}

/** A label, an input, and a problem or a description. */
function Field(props: FieldTemplateProps): JSX.Element {
  const { id, label, schema, formContext, uiSchema, rawHelp, children } = props;
  if (schema.type === 'object') {
    return children;
  }
  const problem = problemsOf(formContext.problem).find(
    ({ field }) => id === `${PREFIX}_${field}`
  );
  const isGroup = Boolean(uiSchema?.['ui:widget']);
  const [Box, Label] = isGroup
    ? (['fieldset', 'legend'] as const)
    : (['div', 'label'] as const);
  return (
    <Box
      className="jp-GpuDask-field"
      data-type={schema.type}
      data-invalid={problem !== undefined}
      title={rawHelp}
    >
      <Label {...(!isGroup && { htmlFor: id })}>{label}</Label>
      {children}
      <p
        id={`${id}-hint`}
        className={problem ? 'jp-GpuDask-error' : 'jp-GpuDask-secondary'}
        role={problem && 'alert'}
      >
        {problem ? textOf(problem) : !isGroup && schema.description}
      </p>
    </Box>
  );
}

/** The fields; those that `formContext.more` names are folded, unless one of them is wrong. */
function Fields({
  properties,
  formContext
}: ObjectFieldTemplateProps): JSX.Element {
  const { more = [], moreLabel, problem } = formContext;
  const [isOpen, setOpen] = useState(false);
  const contents = (isMore: boolean): React.ReactNode =>
    properties
      .filter(({ name }) => more.includes(name) === isMore)
      .map(({ content }) => content);
  return (
    <>
      <div className="jp-GpuDask-fields">{contents(false)}</div>
      {more.length > 0 && (
        <details
          open={
            isOpen ||
            problemsOf(problem).some(({ field }) => more.includes(field))
          }
          onToggle={event => setOpen(event.currentTarget.open)}
        >
          <summary>{moreLabel}</summary>
          <div className="jp-GpuDask-fields">{contents(true)}</div>
        </details>
      )}
    </>
  );
}

/** What all inputs have. */
function common({ id, name, formContext }: WidgetProps): {
  id: string;
  'aria-describedby': string;
  'aria-invalid': boolean;
} {
  const { problem } = formContext as { problem: IProblem | null };
  return {
    id,
    'aria-describedby': `${id}-hint`,
    'aria-invalid': problemsOf(problem).some(({ field }) => field === name)
  };
}

function Text(props: WidgetProps): JSX.Element {
  return (
    <input
      {...common(props)}
      type={props.options.inputType ?? 'text'}
      autoComplete="off"
      spellCheck={false}
      value={props.value ?? ''}
      placeholder={props.placeholder}
      onChange={({ target }) => props.onChange(target.value || undefined)}
    />
  );
}

function Select(props: WidgetProps): JSX.Element {
  return (
    <select
      {...common(props)}
      value={props.value ?? ''}
      onChange={({ target }) => props.onChange(target.value || undefined)}
    >
      <option value="">{props.placeholder}</option>
      {props.options.enumOptions?.map(({ value, label }) => (
        <option key={value} value={value}>
          {label}
        </option>
      ))}
    </select>
  );
}

function Checkbox(props: WidgetProps): JSX.Element {
  return (
    <input
      {...common(props)}
      type="checkbox"
      checked={Boolean(props.value)}
      onChange={({ target }) => props.onChange(target.checked)}
    />
  );
}

const TEMPLATES = { FieldTemplate: Field, ObjectFieldTemplate: Fields };

const WIDGETS = {
  TextWidget: Text,
  SelectWidget: Select,
  CheckboxWidget: Checkbox
};
