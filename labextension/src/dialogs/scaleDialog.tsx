/**
 * The dialog that asks how many workers a cluster shall have.
 */
import { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import React, { useId } from 'react';

import { ICluster, IProblem } from '../model/api';
import { OrderDialog } from './submitDialog';

/** How many workers a cluster on the CPU can have. */
const MOST_WORKERS = 256;

interface IScaleOptions {
  cluster: ICluster;
  trans: TranslationBundle;
  /** Sends the order; throws what the server says against it. */
  submit: (workers: number) => Promise<void>;
}

/** Make the dialog. */
export function scaleDialog(options: IScaleOptions): OrderDialog {
  const { cluster, trans, submit } = options;
  const body = new ScaleBody(cluster, trans);
  return new OrderDialog({
    title: trans.__('Scale the cluster of %1', cluster.name),
    body,
    action: trans.__('Scale'),
    trans,
    send: async () => submit(body.workers())
  });
}

/** The number, and what it may be. */
class ScaleBody extends ReactWidget {
  constructor(
    private readonly _cluster: ICluster,
    private readonly _trans: TranslationBundle
  ) {
    super();
    this._text = String(_cluster.state?.workers.length ?? 1);
  }

  /**
   * What is written.
   *
   * @throws - where it is no number of workers that the cluster can have
   */
  workers(): number {
    const number = Number(this._text);
    const most = mostWorkers(this._cluster);
    if (!Number.isInteger(number) || number < 1 || number > most) {
      throw new Error(
        this._trans.__('Give a whole number from 1 to %1.', most)
      );
    }
    return number;
  }

  /** Show what is wrong. */
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
          max={mostWorkers(cluster)}
          value={text}
          aria-invalid={problem !== null}
          aria-describedby={`${id}-hint`}
          onChange={event => onChange(event.target.value)}
        />
        {problem ? (
          <p id={`${id}-hint`} className="jp-GpuDask-problem" role="alert">
            {`${problem.message} ${problem.fix}`.trim()}
          </p>
        ) : (
          <p id={`${id}-hint`} className="jp-GpuDask-quiet">
            {limitOf(cluster, trans)}
          </p>
        )}
      </div>
    </div>
  );
}

/** On GPUs a cluster has one worker for each that it holds. */
function mostWorkers(cluster: ICluster): number {
  return cluster.engine === 'cuda' ? cluster.gpus.length : MOST_WORKERS;
}

function limitOf(cluster: ICluster, trans: TranslationBundle): string {
  const most = mostWorkers(cluster);
  return cluster.engine === 'cuda'
    ? trans._n(
        'It holds %1 GPU, and each worker needs one. For more, stop it and start it with options.',
        'From 1 to %1, for it holds so many GPUs. For more, stop it and start it with options.',
        most
      )
    : trans.__('From 1 to %1.', most);
}
