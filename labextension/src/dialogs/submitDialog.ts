/**
 * A dialog that sends an order, and closes when the server has taken it.
 */
import { Dialog } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import { problemOf } from '../errors';
import { IProblem } from '../model/api';

/** What the user fills in. */
export interface IOrderForm extends Widget {
  /** Show what is wrong, which is in the words of the panel. */
  showProblem: (problem: IProblem) => void;
}

interface IOrderOptions {
  title: string;
  body: IOrderForm;
  /** What the button that sends says. */
  action: string;
  trans: TranslationBundle;
  /** Sends the order; throws what the server says against it. */
  send: () => Promise<void>;
}

export class OrderDialog extends Dialog<void> {
  constructor({ title, body, action, trans, send }: IOrderOptions) {
    super({
      title,
      body,
      buttons: [
        Dialog.cancelButton({ label: trans.__('Cancel') }),
        Dialog.okButton({ label: action })
      ],
      focusNodeSelector: 'select, input'
    });
    this._form = body;
    this._send = send;
    this._trans = trans;
  }

  /** Close on Cancel; else only when the server agrees. */
  override resolve(index = 1): void {
    if (index === 0) {
      super.resolve(index);
    } else if (!this._isSending) {
      void this._submit(index);
    }
  }

  private async _submit(index: number): Promise<void> {
    this._isSending = true;
    try {
      await this._send();
      super.resolve(index);
    } catch (error) {
      this._form.showProblem(problemOf(error, this._trans));
    } finally {
      this._isSending = false;
    }
  }

  private readonly _form: IOrderForm;
  private readonly _send: () => Promise<void>;
  private readonly _trans: TranslationBundle;
  private _isSending = false;
}
