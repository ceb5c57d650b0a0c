/**
 * The panel with a fake server, for the tests of its sections.
 */
import { ISessionContext } from '@jupyterlab/apputils';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { SidePanel } from '@jupyterlab/ui-components';
import { CommandRegistry } from '@lumino/commands';
import { Widget } from '@lumino/widgets';

import { ClusterActions } from '../cluster/actions';
import { addClusterCommands } from '../cluster/commands';
import { IGpuList, IStreamMessage } from '../model/api';
import { Connection } from '../model/connection';
import { GpuDaskModel } from '../model/model';
import { RestClient } from '../model/rest';
import { CurrentKernel } from '../notebook/currentKernel';
import { createPanel } from '../panel/panel';
import { IGpuDask } from '../tokens';
import { startApp, TestApp } from './app';
import { rendered, FakeSocket, gpu, settingsOf } from './fakeServer';

/** A panel that is shown in the document; `show` and `dispose` are called for each test. */
export class ShownPanel {
  panel!: SidePanel;
  gpuDask!: IGpuDask;

  /** The server's reply to each request. */
  reply: () => Response = () => new Response('{}');

  show(translator: ITranslator = nullTranslator): void {
    FakeSocket.all = [];
    const rest = new RestClient(settingsOf(() => this.reply()));
    this._app = startApp(rest.settings);
    const model = new GpuDaskModel(new Connection(rest));
    const trans = translator.load('jupyter_gpudask');
    const current = new CurrentKernel(this._app.shell);
    this.gpuDask = {
      model,
      current,
      commands: new CommandRegistry(),
      trans,
      rest,
      language: translator.languageCode
    };
    const actions = new ClusterActions(this.gpuDask);
    addClusterCommands(
      this.gpuDask,
      async () => actions,
      {
        hasLayouts: true,
        open: () => undefined,
        openLayout: () => undefined
      },
      () => Promise.resolve()
    );
    this.panel = createPanel(this.gpuDask, translator);
    Widget.attach(this.panel, document.body);
  }

  dispose(): void {
    this.panel.dispose();
    this.gpuDask.model.dispose();
    this._app.shell.dispose();
  }

  /** Send a message of the server, and wait until it is rendered. */
  async receive(message: Partial<IStreamMessage>): Promise<void> {
    FakeSocket.last.send(message);
    await rendered();
  }

  /** Make a notebook the current one. */
  openNotebook(kernelId: string | null, status = 'idle'): void {
    const { current } = this.gpuDask;
    jest
      .spyOn(current, 'session', 'get')
      .mockReturnValue({ kernelDisplayStatus: status } as ISessionContext);
    jest.spyOn(current, 'name', 'get').mockReturnValue('mine.ipynb');
    jest.spyOn(current, 'kernelId', 'get').mockReturnValue(kernelId);
  }

  /** The texts of elements, with ordinary spaces. */
  texts(selector: string): (string | undefined)[] {
    const nodes = this.panel.node.querySelectorAll(selector);
    return Array.from(nodes, node => node.textContent?.replace(/\u00a0/g, ' '));
  }

  names(selector: string): (string | null)[] {
    const nodes = this.panel.node.querySelectorAll(selector);
    return Array.from(nodes, node => node.getAttribute('aria-label'));
  }

  private _app!: TestApp;
}

/** The list of one GPU. */
export function gpuList(changes: Partial<IGpuList> = {}): IGpuList {
  return {
    gpus: [gpu()],
    waiting: [],
    reason: '',
    fix: '',
    error: null,
    ...changes
  };
}
