/**
 * A dialog with a form, which closes when the server accepts the request.
 */
import { Dialog } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import { Message } from '@lumino/messaging';

import '../../style/views.css';
import '../../style/buttons.css';
import '../../style/dialogs.css';

import { rememberFocus } from '../components/focus';
import { toProblem } from '../errors';
import { IProblem } from '../model/api';
import type { Values } from './schemaForm';

/** The elements of a dialog that Tab reaches. */
const FOCUSABLE = 'select:enabled, input:enabled, button:enabled';

/** The inputs with a problem, and the others: all of the first kind may be disabled. */
const INPUTS = [
  '[data-invalid="true"] :is(select, input):enabled',
  ':is(select, input):enabled'
];

/** What a form is rendered with. */
export interface IFormProps {
  values: Values;
  /** Why the request was refused. */
  problem: IProblem | null;
  onChange: (values: Values) => void;
}

interface ISubmitDialogOptions {
  title: string;
  /** The initial values, and why they were refused. */
  values: Values;
  problem?: IProblem | null;
  render: (props: IFormProps) => JSX.Element;
  /** The label of the submit button. */
  submitLabel: string;
  trans: TranslationBundle;
  /** Send the request; rejects if the values are refused. */
  submit: (values: Values) => Promise<void>;
}

/** The body of the dialog, with the state of its form. */
class FormBody extends ReactWidget {
  constructor(private readonly _options: ISubmitDialogOptions) {
    super();
    this.values = _options.values;
    this._problem = _options.problem ?? null;
  }

  values: Values;

  report(problem: IProblem | null): void {
    this._problem = problem;
    this.update();
  }

  protected override render(): JSX.Element {
    return this._options.render({
      values: this.values,
      problem: this._problem,
      onChange: values => {
        this.values = values;
        this.report(null);
      }
    });
  }

  private _problem: IProblem | null;
}

/** Stays open, and shows the problem, while the request is refused. */
export class SubmitDialog extends Dialog<void> {
  constructor(private readonly _options: ISubmitDialogOptions) {
    const { title, submitLabel, trans } = _options;
    const body = new FormBody(_options);
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
      await this._options.submit(this._form.values);
      super.resolve(index);
    } catch (error) {
      this._form.report(toProblem(error, this._options.trans));
      await this._form.renderPromise;
      requestAnimationFrame(() =>
        INPUTS.map(each => this.node.querySelector<HTMLElement>(each))
          .find(Boolean)
          ?.focus()
      );
    } finally {
      this._isPending = false;
    }
  }

  private readonly _form: FormBody;
  private _giveFocusBack = (): void => undefined;
  private _isPending = false;
}
