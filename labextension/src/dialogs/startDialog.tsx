/**
 * The dialog that asks what cluster to start; it closes when the server has taken the order.
 */
import { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import React from 'react';

import { Units } from '../format';
import {
  IClusterSpec,
  IGpu,
  IProblem,
  IProfileList,
  SpecRequest
} from '../model/api';
import { StartForm } from './startForm';
import { IChoices, initialChoices, specOf } from './startOptions';
import { OrderDialog } from './submitDialog';

interface IStartOptions {
  /** The notebook. */
  name: string;
  gpus: IGpu[];
  /** What the server has by default, and the profiles. */
  offer: IProfileList;
  /** What was asked for before, if anything was, and what the server said against it. */
  spec?: IClusterSpec;
  problem?: IProblem | null;
  units: Units;
  trans: TranslationBundle;
  /** Sends the order; throws what the server says against it. */
  submit: (spec: SpecRequest, profile: string) => Promise<void>;
}

/** Make the dialog. */
export function startDialog(order: IStartOptions): OrderDialog {
  const { name, gpus, offer, trans, submit } = order;
  const body = new StartBody(order);
  return new OrderDialog({
    title: trans.__('Start a cluster for %1', name),
    body,
    action: trans.__('Start'),
    trans,
    send: () => submit(specOf(body.choices, gpus, offer), body.choices.profile)
  });
}

/** The form, and what is chosen in it. */
class StartBody extends ReactWidget {
  constructor(private readonly _order: IStartOptions) {
    super();
    const { gpus, offer, spec, problem = null } = _order;
    this._choices = initialChoices(gpus, offer, spec);
    this._problem = problem;
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
    const { gpus, offer, units, trans } = this._order;
    return (
      <StartForm
        choices={this._choices}
        gpus={gpus}
        offer={offer}
        problem={this._problem}
        units={units}
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
  private _problem: IProblem | null;
}
