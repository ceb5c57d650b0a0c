/**
 * The dialog that changes the number of workers, or lets it follow the work.
 */
import { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import React from 'react';

import { ICluster, IProblem } from '../model/api';
import { SchemaForm, Values } from './schemaForm';
import { SubmitDialog } from './submitDialog';

/** The largest number of workers of a cluster that holds no GPUs of this machine. */
const MAX_WORKERS = 256;

/** A number of workers, or the fewest and the most if it follows the work. */
export type Workers = number | [minimum: number, maximum: number];

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
    const { state, gpus } = _cluster;
    const workers = state?.workers.length ?? 1;
    const [minimum, maximum] = state?.adaptive_range ?? [
      1,
      gpus.length || workers
    ];
    this._values = {
      workers: `${workers}`,
      minimum: `${minimum}`,
      maximum: `${maximum}`,
      isAdaptive: Boolean(state?.adaptive_range)
    };
    // On GPUs of this machine, there is one worker for each that the cluster holds.
    this._most = gpus.length || MAX_WORKERS;
  }

  /**
   * The numbers that the user has entered.
   *
   * @throws if the cluster cannot have so many workers
   */
  workers(): Workers {
    const { isAdaptive } = this._values;
    const least = this._parse(isAdaptive ? 'minimum' : 'workers', 1);
    return isAdaptive ? [least, this._parse('maximum', least)] : least;
  }

  private _parse(name: string, min: number): number {
    const number = Number(this._values[name]);
    if (!Number.isInteger(number) || number < min || number > this._most) {
      throw new Error(
        this._trans.__('Enter a whole number from %1 to %2.', min, this._most)
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
    const trans = this._trans;
    const field = (title: string): object => ({ title, type: 'string' });
    const numbers: { [name: string]: object } = this._values.isAdaptive
      ? {
          minimum: field(trans.__('Fewest workers')),
          maximum: field(trans.__('Most workers'))
        }
      : { workers: field(trans.__('Workers')) };
    const isAdaptive = {
      title: trans.__('Adaptive'),
      description: trans.__('Close idle workers, and start them for work'),
      type: 'boolean' as const
    };
    const hint =
      this._cluster.gpus.length > 0
        ? trans._n(
            'The cluster holds %1 GPU, and each worker needs one. To use more, stop it and start it with options.',
            'From 1 to %1, the number of GPUs that the cluster holds. To use more, stop it and start it with options.',
            this._most
          )
        : trans.__('From 1 to %1.', this._most);
    return (
      <div className="jp-GpuDask-form">
        <p className="jp-GpuDask-secondary">{hint}</p>
        <SchemaForm
          fields={{ ...numbers, isAdaptive }}
          values={this._values}
          problem={this._problem}
          onChange={values => {
            this._values = values;
            this._problem = null;
            this.update();
          }}
        />
      </div>
    );
  }

  private readonly _most: number;
  private _problem: IProblem | null = null;
  private _values: Values;
}
