/**
 * A widget that subscribes to the model while it is visible, and views that are loaded when they are first rendered.
 */
import { ReactWidget } from '@jupyterlab/ui-components';
import { IDisposable } from '@lumino/disposable';
import { Message } from '@lumino/messaging';
import React, { createContext, Suspense, useContext } from 'react';

import { IGpuDask } from '../tokens';

/** Renders a React view, and renders it again when the model changes. */
export class LiveWidget extends ReactWidget {
  /**
   * @param gpuDask - the shared service
   * @param _view - the view
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

  /** Nothing is rendered before the widget is visible for the first time: its view may have to be loaded. */
  protected override onUpdateRequest(message: Message): void {
    this._wasVisible ||= this.isVisible;
    if (this._wasVisible) {
      super.onUpdateRequest(message);
    }
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
    if (this.isVisible && !this._subscription) {
      const { model, current } = this.gpuDask;
      model.changed.connect(this.update, this);
      current.changed.connect(this.update, this);
      this._subscription = model.subscribe();
      this.update();
    }
  }

  private _stop(): void {
    const { model, current } = this.gpuDask;
    model.changed.disconnect(this.update, this);
    current.changed.disconnect(this.update, this);
    this._subscription?.dispose();
    this._subscription = null;
  }

  private _subscription: IDisposable | null = null;
  private _wasVisible = false;
}

export const GpuDaskContext = createContext<IGpuDask | null>(null);

/** The service that a `LiveWidget` provides to its views. */
export function useGpuDask(): IGpuDask {
  const context = useContext(GpuDaskContext);
  if (!context) {
    throw new Error('useGpuDask must be used inside a LiveWidget');
  }
  return context;
}

/**
 * A view whose code and styles are loaded when it is first rendered.
 *
 * @param load - loads the view
 */
export function lazyView(
  load: () => Promise<React.FunctionComponent>
): React.FunctionComponent {
  const View = React.lazy(async () => {
    try {
      return { default: await load() };
    } catch (error) {
      console.error('A view of GPU Dask could not be loaded.', error);
      return { default: LoadFailure };
    }
  });
  return () => (
    <Suspense fallback={null}>
      <View />
    </Suspense>
  );
}

/** The files are missing: the server is gone, or has another version of the extension by now. */
function LoadFailure(): JSX.Element {
  const { trans } = useGpuDask();
  return <p>{trans.__('This part could not be loaded. Reload the page.')}</p>;
}
