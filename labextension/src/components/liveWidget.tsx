/**
 * A widget that is up to date while it can be seen, and asks for nothing while it cannot.
 */
import { ReactWidget } from '@jupyterlab/ui-components';
import { IDisposable } from '@lumino/disposable';
import { Message } from '@lumino/messaging';
import React from 'react';

import { IGpuDask } from '../tokens';
import { GpuDaskContext } from './context';

export class LiveWidget extends ReactWidget {
  /**
   * @param gpuDask - what the view shows
   * @param _view - draws it
   */
  constructor(
    readonly gpuDask: IGpuDask,
    private readonly _view: React.FunctionComponent
  ) {
    super();
    this.addClass('jp-GpuDask-live');
  }

  override dispose(): void {
    this._stop();
    super.dispose();
  }

  protected override render(): JSX.Element {
    const View = this._view;
    return (
      <GpuDaskContext.Provider value={this.gpuDask}>
        <View />
      </GpuDaskContext.Provider>
    );
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this._startIfVisible();
  }

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this._startIfVisible();
  }

  protected override onBeforeHide(message: Message): void {
    super.onBeforeHide(message);
    this._stop();
  }

  protected override onBeforeDetach(message: Message): void {
    this._stop();
    super.onBeforeDetach(message);
  }

  private _startIfVisible(): void {
    if (this.isVisible && !this._looking) {
      const { model, current } = this.gpuDask;
      model.changed.connect(this.update, this);
      current.changed.connect(this.update, this);
      this._looking = model.look();
      this.update();
    }
  }

  private _stop(): void {
    const { model, current } = this.gpuDask;
    model.changed.disconnect(this.update, this);
    current.changed.disconnect(this.update, this);
    this._looking?.dispose();
    this._looking = null;
  }

  private _looking: IDisposable | null = null;
}
