/**
 * The dialog that changes the number of workers.
 */
import { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import React, { useId } from 'react';

import { ICluster, IProblem } from '../model/api';
import { FieldError } from './field';
import { SubmitDialog } from './submitDialog';

/** The largest number of workers on the CPU. */
const MAX_CPU_WORKERS = 256;

interface IScaleOptions {
  cluster: ICluster;
  trans: TranslationBundle;
  /** Scale the cluster; rejects if the server refuses the number. */
  submit: (workers: number) => Promise<void>;
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
    this._text = String(_cluster.state?.workers.length ?? 1);
  }

  /**
   * The number that the user has entered.
   *
   * @throws if the cluster cannot have this number of workers
   */
  workers(): number {
    const number = Number(this._text);
    const max = maxWorkers(this._cluster);
    if (!Number.isInteger(number) || number < 1 || number > max) {
      throw new Error(
        this._trans.__('Enter a whole number from 1 to %1.', max)
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
        text={this._text}
        problem={this._problem}
        trans={this._trans}
        onChange={text => {
          this._text = text;
          this._problem = null;
          this.update();
        }}
      />
    );
  }

  private _problem: IProblem | null = null;
  private _text: string;
}

interface IScaleFormProps {
  cluster: ICluster;
  text: string;
  problem: IProblem | null;
  trans: TranslationBundle;
  onChange: (text: string) => void;
}

function ScaleForm(props: IScaleFormProps): JSX.Element {
  const { cluster, text, problem, trans, onChange } = props;
  const id = useId();
  return (
    <div className="jp-GpuDask-form">
      <div className="jp-GpuDask-field">
        <label htmlFor={id}>{trans.__('Workers')}</label>
        <input
          id={id}
          type="number"
          min={1}
          max={maxWorkers(cluster)}
          value={text}
          aria-invalid={problem !== null}
          aria-describedby={`${id}-hint`}
          onChange={event => onChange(event.target.value)}
        />
        {problem ? (
          <FieldError id={`${id}-hint`} problem={problem} />
        ) : (
          <p id={`${id}-hint`} className="jp-GpuDask-secondary">
            {limitHint(cluster, trans)}
          </p>
        )}
      </div>
    </div>
  );
}

/** The largest number of workers; on GPUs, one for each GPU that the cluster holds. */
function maxWorkers(cluster: ICluster): number {
  return cluster.engine === 'cuda' ? cluster.gpus.length : MAX_CPU_WORKERS;
}

function limitHint(cluster: ICluster, trans: TranslationBundle): string {
  const max = maxWorkers(cluster);
  return cluster.engine === 'cuda'
    ? trans._n(
        'The cluster holds %1 GPU, and each worker needs one. To use more, stop it and start it with options.',
        'From 1 to %1, the number of GPUs that the cluster holds. To use more, stop it and start it with options.',
        max
      )
    : trans.__('From 1 to %1.', max);
}
