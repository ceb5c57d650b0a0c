/**
 * A dialog with a form, which closes when the server accepts the request.
 */
import { Dialog } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';

import '../../style/views.css';
import '../../style/buttons.css';
import '../../style/dialogs.css';

import { rememberFocus } from '../components/focus';
import { toProblem } from '../errors';
import { IProblem } from '../model/api';

/** The elements of a dialog that Tab reaches. */
const FOCUSABLE = 'select:enabled, input:enabled, button:enabled';

/** The body of the dialog. */
export interface IDialogForm extends Widget {
  /** Show why the request was refused. */
  showProblem: (problem: IProblem) => void;
}

interface ISubmitDialogOptions {
  title: string;
  body: IDialogForm;
  /** The label of the submit button. */
  submitLabel: string;
  trans: TranslationBundle;
  /** Send the request; rejects if the form or the server refuses it. */
  submit: () => Promise<void>;
}

/** Stays open, and shows the problem, while the request is refused. */
export class SubmitDialog extends Dialog<void> {
  constructor({
    title,
    body,
    submitLabel,
    trans,
    submit
  }: ISubmitDialogOptions) {
    super({
      title,
      body,
      buttons: [
        Dialog.cancelButton({ label: trans.__('Cancel') }),
        Dialog.okButton({ label: submitLabel })
      ],
      focusNodeSelector: 'select, input'
    });
    this._form = body;
    this._submit = submit;
    this._trans = trans;
  }

  /** Close the dialog on Cancel; submit the form otherwise. */
  override resolve(index = 1): void {
    if (index === 0) {
      super.resolve(index);
    } else if (!this._isPending) {
      void this._trySubmit(index);
    }
  }

  protected override onBeforeAttach(message: Message): void {
    this._giveFocusBack = rememberFocus();
    super.onBeforeAttach(message);
  }

  protected override onAfterDetach(message: Message): void {
    super.onAfterDetach(message);
    this._giveFocusBack();
  }

  /** Let Enter press a button of the form, and Tab and Shift+Tab go round the whole dialog. */
  protected override _evtKeydown(event: KeyboardEvent): void {
    const focused = document.activeElement;
    const isButton = focused instanceof HTMLButtonElement;
    const isInForm = this._form.node.contains(focused);
    if (event.key === 'Enter' && isButton && isInForm) {
      return;
    }
    // The form is rendered after JupyterLab has looked for the first element.
    const [first, ...others] = [
      ...this.node.querySelectorAll<HTMLElement>(FOCUSABLE)
    ];
    const last = others.at(-1);
    const [end, start] = event.shiftKey ? [first, last] : [last, first];
    if (event.key === 'Tab' && focused === end && start) {
      event.stopPropagation();
      event.preventDefault();
      start.focus();
      return;
    }
    super._evtKeydown(event);
  }

  private async _trySubmit(index: number): Promise<void> {
    this._isPending = true;
    try {
      await this._submit();
      super.resolve(index);
    } catch (error) {
      this._form.showProblem(toProblem(error, this._trans));
    } finally {
      this._isPending = false;
    }
  }

  private readonly _form: IDialogForm;
  private readonly _submit: () => Promise<void>;
  private readonly _trans: TranslationBundle;
  private _giveFocusBack = (): void => undefined;
  private _isPending = false;
}
