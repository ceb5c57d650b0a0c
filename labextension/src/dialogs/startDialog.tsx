/**
 * The dialog that starts a cluster with options.
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
import { IStartOptions, initialOptions, toSpec } from './startOptions';
import { SubmitDialog } from './submitDialog';

interface IStartDialogOptions {
  /** The name of the notebook. */
  name: string;
  gpus: IGpu[];
  /** The profiles and default options of the server. */
  profiles: IProfileList;
  /** The options of the previous cluster, and why it was refused. */
  spec?: IClusterSpec;
  problem?: IProblem | null;
  units: Units;
  trans: TranslationBundle;
  /** Start the cluster; rejects if the server refuses the options. */
  submit: (spec: SpecRequest, profile: string) => Promise<void>;
}

/** Create the dialog. */
export function startDialog(options: IStartDialogOptions): SubmitDialog {
  const { name, gpus, profiles, trans, submit } = options;
  const body = new StartBody(options);
  return new SubmitDialog({
    title: trans.__('Start a cluster for %1', name),
    body,
    submitLabel: trans.__('Start'),
    trans,
    submit: () =>
      submit(toSpec(body.options, gpus, profiles), body.options.profile)
  });
}

/** The body of the dialog, with the state of the form. */
class StartBody extends ReactWidget {
  constructor(private readonly _dialogOptions: IStartDialogOptions) {
    super();
    const { gpus, profiles, spec, problem = null } = _dialogOptions;
    this._options = initialOptions(gpus, profiles, spec);
    this._problem = problem;
  }

  get options(): IStartOptions {
    return this._options;
  }

  /** Show why the request was refused. */
  showProblem(problem: IProblem): void {
    this._problem = problem;
    this.update();
  }

  protected override render(): JSX.Element {
    const { gpus, profiles, units, trans } = this._dialogOptions;
    return (
      <StartForm
        options={this._options}
        gpus={gpus}
        profiles={profiles}
        problem={this._problem}
        units={units}
        trans={trans}
        onChange={options => {
          this._options = options;
          this._problem = null;
          this.update();
        }}
      />
    );
  }

  private _options: IStartOptions;
  private _problem: IProblem | null;
}
