/**
 * The dialog that asks what cluster to start; it closes when the server has taken the order.
 */
import { Dialog } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import React from 'react';

import { IGpu, IProblem, IProfileList, SpecRequest } from '../model/api';
import { RefusedError } from '../model/rest';
import { IChoices, initialChoices, specOf } from '../startSpec';
import { StartForm } from './startForm';

interface IStartOptions {
  /** The notebook. */
  name: string;
  gpus: IGpu[];
  /** What the server has by default, and the profiles. */
  offer: IProfileList;
  trans: TranslationBundle;
  /** Sends the order; throws what the server says against it. */
  submit: (spec: SpecRequest, profile: string) => Promise<void>;
}

export class StartDialog extends Dialog<void> {
  constructor(private readonly _order: IStartOptions) {
    const { name, trans } = _order;
    const body = new StartBody(_order);
    super({
      title: trans.__('Start a cluster for %1', name),
      body,
      buttons: [
        Dialog.cancelButton({ label: trans.__('Cancel') }),
        Dialog.okButton({ label: trans.__('Start') })
      ],
      focusNodeSelector: 'select, input'
    });
    this._form = body;
    this.addClass('jp-GpuDask-startDialog');
  }

  /** Close on Cancel; on Start only when the server agrees. */
  override resolve(index = 1): void {
    if (index === 0) {
      super.resolve(index);
    } else if (!this._isSending) {
      void this._submit(index);
    }
  }

  private async _submit(index: number): Promise<void> {
    const { gpus, offer, submit } = this._order;
    const { choices } = this._form;
    this._isSending = true;
    try {
      await submit(specOf(choices, gpus, offer), choices.profile);
      super.resolve(index);
    } catch (error) {
      this._form.showProblem(problemOf(error));
    } finally {
      this._isSending = false;
    }
  }

  private readonly _form: StartBody;
  private _isSending = false;
}

/** The form, and what is chosen in it. */
class StartBody extends ReactWidget {
  constructor(private readonly _order: IStartOptions) {
    super();
    this._choices = initialChoices(_order.gpus, _order.offer);
  }

  get choices(): IChoices {
    return this._choices;
  }

  /** Show what is wrong. */
  showProblem(problem: IProblem): void {
    this._problem = problem;
    this.update();
  }

  protected override render(): JSX.Element {
    const { gpus, offer, trans } = this._order;
    return (
      <StartForm
        choices={this._choices}
        gpus={gpus}
        offer={offer}
        problem={this._problem}
        trans={trans}
        onChange={choices => {
          this._choices = choices;
          this._problem = null;
          this.update();
        }}
      />
    );
  }

  private _choices: IChoices;
  private _problem: IProblem | null = null;
}

function problemOf(error: unknown): IProblem {
  if (error instanceof RefusedError) {
    return error.problem;
  }
  const message = error instanceof Error ? error.message : String(error);
  return { message, fix: '', kind: '', field: '' };
}
