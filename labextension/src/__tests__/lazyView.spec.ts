import { nullTranslator } from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';
import { Widget } from '@lumino/widgets';
import { createElement, FunctionComponent } from 'react';

import { lazyView, LiveWidget } from '../components/liveWidget';
import { Connection } from '../model/connection';
import { GpuDaskModel } from '../model/model';
import { RestClient } from '../model/rest';
import { CurrentKernel } from '../notebook/currentKernel';
import { startApp, TestApp } from './app';
import { rendered, settingsOf } from './fakeServer';

describe('a view that is loaded when it is rendered', () => {
  let app: TestApp;
  let model: GpuDaskModel;
  let current: CurrentKernel;
  let widget: LiveWidget;

  beforeEach(() => {
    const rest = new RestClient(settingsOf(() => new Response('{}')));
    app = startApp(rest.settings);
    model = new GpuDaskModel(new Connection(rest));
    current = new CurrentKernel(app.shell);
  });

  const show = (
    load: () => Promise<FunctionComponent>,
    isHidden = false
  ): void => {
    const commands = new CommandRegistry();
    const trans = nullTranslator.load('jupyter_gpudask');
    const gpuDask = {
      model,
      current,
      commands,
      trans,
      rest: model.connection.rest,
      language: 'en'
    };
    widget = new LiveWidget(gpuDask, lazyView(load));
    widget.setHidden(isHidden);
    Widget.attach(widget, document.body);
  };

  afterEach(() => {
    widget.dispose();
    model.dispose();
    app.shell.dispose();
  });

  it('is empty until it is loaded, and keeps its elements when the model changes', async () => {
    let finish: (view: FunctionComponent) => void = () => undefined;
    const load = jest.fn(
      () => new Promise<FunctionComponent>(resolve => (finish = resolve))
    );
    show(load);
    await rendered();
    expect(widget.node.textContent).toBe('');
    finish(() => createElement('button', null, 'content'));
    await rendered();
    const button = widget.node.querySelector('button');
    expect(button?.textContent).toBe('content');
    button?.focus();
    widget.update();
    await rendered();
    expect(document.activeElement).toBe(button);
    expect(load).toHaveBeenCalledTimes(1);
  });

  it('is not loaded before it is visible', async () => {
    const load = jest.fn(() => Promise.resolve(() => null));
    show(load, true);
    await rendered();
    expect(load).not.toHaveBeenCalled();
    widget.show();
    await rendered();
    expect(load).toHaveBeenCalledTimes(1);
  });

  it('says what to do if it cannot be loaded', async () => {
    jest.spyOn(console, 'error').mockImplementation(() => undefined);
    show(() => Promise.reject(new Error('Loading chunk 1 failed.')));
    await rendered();
    expect(widget.node.textContent).toBe(
      'This part could not be loaded. Reload the page.'
    );
  });
});
