/**
 * The dialog that changes the number of workers, or lets it follow the work.
 */
import { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import React, { useId } from 'react';

import { ICluster, IProblem } from '../model/api';
import { FieldError } from './field';
import { SubmitDialog } from './submitDialog';

/** The largest number of workers of a cluster that holds no GPUs of this machine. */
const MAX_WORKERS = 256;

/** A number of workers, or the fewest and the most if it follows the work. */
export type Workers = number | [minimum: number, maximum: number];

/** The state of the form. */
interface IScaleValues {
  workers: string;
  isAdaptive: boolean;
  minimum: string;
  maximum: string;
}

interface IScaleOptions {
  cluster: ICluster;
  trans: TranslationBundle;
  /** Scale the cluster; rejects if the server refuses the number. */
  submit: (workers: Workers) => Promise<void>;
}

/** Create the dialog. */
export function scaleDialog(options: IScaleOptions): SubmitDialog {
  const { cluster, trans, submit } = options;
  const body = new ScaleBody(cluster, trans);
  return new SubmitDialog({
    title: trans.__('Scale the cluster of %1', cluster.name),
    body,
    submitLabel: trans.__('Scale'),
    trans,
    submit: async () => submit(body.workers())
  });
}

/** The body of the dialog, with the state of the form. */
class ScaleBody extends ReactWidget {
  constructor(
    private readonly _cluster: ICluster,
    private readonly _trans: TranslationBundle
  ) {
    super();
    const range = _cluster.state?.adaptive_range;
    const workers = _cluster.state?.workers.length ?? 1;
    this._values = {
      workers: String(workers),
      isAdaptive: Boolean(range),
      minimum: String(range?.[0] ?? 1),
      maximum: String(range?.[1] ?? (_cluster.gpus.length || workers))
    };
  }

  /**
   * The numbers that the user has entered.
   *
   * @throws if the cluster cannot have so many workers
   */
  workers(): Workers {
    const { isAdaptive, workers, minimum, maximum } = this._values;
    if (!isAdaptive) {
      return this._parse(workers, 1);
    }
    const fewest = this._parse(minimum, 1);
    return [fewest, this._parse(maximum, fewest)];
  }

  private _parse(text: string, min: number): number {
    const number = Number(text);
    const max = maxWorkers(this._cluster);
    if (!Number.isInteger(number) || number < min || number > max) {
      throw new Error(
        this._trans.__('Enter a whole number from %1 to %2.', min, max)
      );
    }
    return number;
  }

  /** Show why the number was refused. */
  showProblem(problem: IProblem): void {
    this._problem = problem;
    this.update();
  }

  protected override render(): JSX.Element {
    return (
      <ScaleForm
        cluster={this._cluster}
        values={this._values}
        problem={this._problem}
        trans={this._trans}
        onChange={changes => {
          this._values = { ...this._values, ...changes };
          this._problem = null;
          this.update();
        }}
      />
    );
  }

  private _problem: IProblem | null = null;
  private _values: IScaleValues;
}

interface IScaleFormProps {
  cluster: ICluster;
  values: IScaleValues;
  problem: IProblem | null;
  trans: TranslationBundle;
  onChange: (changes: Partial<IScaleValues>) => void;
}

function ScaleForm(props: IScaleFormProps): JSX.Element {
  const { cluster, values, problem, trans, onChange } = props;
  const id = useId();
  const fields: [keyof IScaleValues, string][] = values.isAdaptive
    ? [
        ['minimum', trans.__('Fewest workers')],
        ['maximum', trans.__('Most workers')]
      ]
    : [['workers', trans.__('Workers')]];
  return (
    <div className="jp-GpuDask-form">
      {fields.map(([name, label]) => (
        <div key={name} className="jp-GpuDask-field">
          <label htmlFor={`${id}-${name}`}>{label}</label>
          <input
            id={`${id}-${name}`}
            type="number"
            min={1}
            max={maxWorkers(cluster)}
            value={String(values[name])}
            aria-invalid={problem !== null}
            aria-describedby={`${id}-hint`}
            onChange={event => onChange({ [name]: event.target.value })}
          />
        </div>
      ))}
      <label className="jp-GpuDask-gpuOption">
        <input
          type="checkbox"
          checked={values.isAdaptive}
          onChange={event => onChange({ isAdaptive: event.target.checked })}
        />
        <span>
          {trans.__(
            'Adaptive: close idle workers, and start them when there is work'
          )}
        </span>
      </label>
      {problem ? (
        <FieldError id={`${id}-hint`} problem={problem} />
      ) : (
        <p id={`${id}-hint`} className="jp-GpuDask-secondary">
          {limitHint(cluster, trans)}
        </p>
      )}
    </div>
  );
}

/** The largest number of workers; on GPUs of this machine, one for each that the cluster holds. */
function maxWorkers(cluster: ICluster): number {
  return cluster.gpus.length || MAX_WORKERS;
}

function limitHint(cluster: ICluster, trans: TranslationBundle): string {
  const max = maxWorkers(cluster);
  return cluster.gpus.length > 0
    ? trans._n(
        'The cluster holds %1 GPU, and each worker needs one. To use more, stop it and start it with options.',
        'From 1 to %1, the number of GPUs that the cluster holds. To use more, stop it and start it with options.',
        max
      )
    : trans.__('From 1 to %1.', max);
}
