import { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import React from 'react';

import { workerName } from '../cluster/summary';
import { IWorker } from '../model/api';

/** The logs of the scheduler and the workers of a cluster. */
export class LogsView extends ReactWidget {
  constructor(
    private readonly _logs: { [worker: string]: string },
    private readonly _workers: IWorker[],
    private readonly _trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-GpuDask-logs');
  }

  protected override render(): JSX.Element {
    const trans = this._trans;
    const entries = Object.entries(this._logs);
    return (
      <>
        {entries.length === 0 && <p>{trans.__('The log is empty.')}</p>}
        {entries.map(([worker, text]) => (
          <section key={worker}>
            <h3>{this._titleOf(worker)}</h3>
            <pre tabIndex={0} aria-label={this._titleOf(worker)}>
              {text.trim() || trans.__('The log is empty.')}
            </pre>
          </section>
        ))}
      </>
    );
  }

  private _titleOf(worker: string): string {
    const trans = this._trans;
    if (worker === 'supervisor') {
      return trans.__('Scheduler');
    }
    const known = this._workers.find(({ name }) => name === worker);
    return known ? workerName(known, trans) : trans.__('Worker %1', worker);
  }
}
