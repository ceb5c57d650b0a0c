import { ISessionContext, IToolbarWidgetRegistry } from '@jupyterlab/apputils';
import { KernelMessage } from '@jupyterlab/services';
import { dismissDialog } from '@jupyterlab/testing';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';

import { IGpuDask } from '../tokens';
import plugins, { CommandIDs } from '..';
import { dialogShown, startApp, TestApp } from './app';
import { cluster, FakeSocket, rendered, settingsOf } from './fakeServer';

const TARGET = 'jupyter_gpudask:accelerate';
const args = { kernelId: 'kernel-1' };

/** A kernel as a notebook talks to it. */
class FakeKernel {
  readonly id = 'kernel-1';
  /** The open comms with the target. */
  comms = {};
  /** Whether running the magic opens a comm: not without a GPU. */
  hasGpu = true;
  /** What running the magic answers. */
  answer: { status: string; evalue?: string } = { status: 'ok' };
  readonly code: string[] = [];
  readonly targets: { [name: string]: () => void } = {};

  registerCommTarget(name: string, callback: () => void): void {
    this.targets[name] = callback;
  }

  async requestCommInfo(): Promise<object> {
    return { content: { status: 'ok', comms: this.comms } };
  }

  requestExecute({ code }: { code: string }): object {
    this.code.push(code);
    const text = 'pandas runs on GPU 1 in this kernel, until it is restarted.';
    const result = KernelMessage.createMessage({
      channel: 'iopub',
      msgType: 'execute_result',
      session: '',
      content: {
        data: { 'text/plain': text },
        execution_count: null,
        metadata: {}
      }
    } as KernelMessage.IOptions<KernelMessage.IExecuteResultMsg>);
    const future = {
      onIOPub: jest.fn<void, [KernelMessage.IIOPubMessage]>(),
      done: Promise.resolve().then(() => {
        if (this.answer.status === 'ok') {
          future.onIOPub(result);
          if (this.hasGpu) {
            this.targets[TARGET]();
          }
        }
        return { content: this.answer };
      })
    };
    return future;
  }
}

let app: TestApp;
let gpuDask: IGpuDask;
let kernel: FakeKernel;
let button: Widget;
/** What the server answers. */
let reply: object;
const statusChanged = new Signal<unknown, string>({});

const byId = new Map(plugins.map(each => [each.id, each]));

/** Open a notebook with the kernel. */
async function open(): Promise<void> {
  const session = {
    session: { kernel },
    kernelChanged: new Signal<unknown, unknown>({}),
    disposed: new Signal<unknown, void>({}),
    statusChanged
  } as unknown as ISessionContext;
  const registry = {
    addFactory: (_: string, __: string, create: (widget: object) => Widget) => {
      button = create({ sessionContext: session });
    }
  } as unknown as IToolbarWidgetRegistry;
  await byId
    .get('jupyter-gpudask:toolbar')
    ?.activate(app, gpuDask, registry, null, null);
  Widget.attach(button, document.body);
  await rendered();
}

beforeEach(async () => {
  FakeSocket.all = [];
  kernel = new FakeKernel();
  reply = {
    default: { gpus: 'all', engine: 'auto', share: false, preset: '' }
  };
  app = startApp(settingsOf(() => new Response(JSON.stringify(reply))));
  const model = byId.get('jupyter-gpudask:model');
  gpuDask = (await model?.activate(app, null)) as IGpuDask;
});

afterEach(() => {
  button.dispose();
  app.shell.dispose();
  gpuDask.model.dispose();
});

const isOn = (): boolean => app.commands.isToggled(CommandIDs.accelerate, args);
const dialogText = (): string =>
  document.querySelector('.jp-Dialog-content')?.textContent ?? '';

describe('the command that accelerates a kernel', () => {
  it('runs the magic, shows what it says, and the button shows it', async () => {
    await open();
    expect(isOn()).toBe(false);
    expect(button.node.textContent).toBe('');
    const executed = app.commands.execute(CommandIDs.accelerate, args);
    await dialogShown();
    expect(kernel.code).toEqual([
      '%load_ext jupyter_gpudask\n%gpudask accelerate'
    ]);
    await rendered();
    expect(dialogText()).toContain('The kernel is accelerated');
    expect(dialogText()).toContain('pandas runs on GPU 1 in this kernel');
    await dismissDialog();
    await executed;
    await rendered();
    expect(isOn()).toBe(true);
    expect(button.node.textContent).toBe('accelerated');
    statusChanged.emit('restarting');
    await rendered();
    expect(isOn()).toBe(false);
    expect(button.node.textContent).toBe('');
  });

  it('shows that nothing was accelerated if the magic says so', async () => {
    await open();
    kernel.hasGpu = false;
    const executed = app.commands.execute(CommandIDs.accelerate, args);
    await dialogShown();
    await rendered();
    expect(dialogText()).toContain('The kernel was not accelerated');
    await dismissDialog();
    await executed;
    expect(isOn()).toBe(false);
  });

  it('shows why the magic refuses', async () => {
    await open();
    const evalue = 'pandas is already imported in this kernel.';
    kernel.answer = { status: 'error', evalue };
    // JupyterLab logs what it shows.
    const log = jest.spyOn(console, 'warn').mockReturnValue();
    const executed = app.commands.execute(CommandIDs.accelerate, args);
    await dialogShown();
    expect(dialogText()).toContain(evalue);
    await dismissDialog();
    await executed;
    log.mockRestore();
    expect(isOn()).toBe(false);
  });

  it('switches the GPUs on and off for every cell that uses Dask', async () => {
    await open();
    const isAutomatic = (): boolean =>
      app.commands.isToggled(CommandIDs.runOnGpus, args);
    expect(isAutomatic()).toBe(false);
    expect(await app.commands.execute(CommandIDs.runOnGpus, args)).toBe(true);
    gpuDask.model.updateCluster(cluster({ automatic: true }));
    expect(isAutomatic()).toBe(true);
    await app.commands.execute(CommandIDs.runOnGpus, args);
    expect(kernel.code).toEqual([
      '%load_ext jupyter_gpudask\n%gpudask start --gpus free\n%gpudask on',
      '%gpudask off'
    ]);
  });

  it('shows why the GPUs are not used, unless the card of the cluster does', async () => {
    await open();
    const run = (): Promise<boolean> =>
      app.commands.execute(CommandIDs.runOnGpus, args);
    const evalue = 'GPU 0 is reserved by b.ipynb.';
    kernel.answer = { status: 'error', evalue };
    const log = jest.spyOn(console, 'warn').mockReturnValue();
    const executed = run();
    await dialogShown();
    expect(dialogText()).toContain(evalue);
    await dismissDialog();
    expect(await executed).toBe(false);
    reply = { ...reply, ...cluster({ status: 'failed', reason: evalue }) };
    expect(await run()).toBe(false);
    log.mockRestore();
  });

  it('connects the notebook to a shared cluster, and disconnects it', async () => {
    await open();
    kernel.hasGpu = false;
    const { model } = gpuDask;
    const use = { ...args, shared: 'shared-1' };
    const state = (): boolean[] => [
      app.commands.isEnabled(CommandIDs.useShared, use),
      app.commands.isToggled(CommandIDs.useShared, use)
    ];
    expect(app.commands.isVisible(CommandIDs.useShared, use)).toBe(false);
    const name = 'Shared cluster 1';
    model.updateCluster(cluster({ kernel_id: 'shared-1', name }));
    expect(app.commands.label(CommandIDs.useShared, use)).toBe(`Use ${name}`);
    expect(state()).toEqual([true, false]);
    await app.commands.execute(CommandIDs.useShared, use);
    model.updateCluster(cluster({ joined: name }));
    expect(state()).toEqual([true, true]);
    await app.commands.execute(CommandIDs.useShared, use);
    expect(kernel.code).toEqual([
      '%load_ext jupyter_gpudask\n%gpudask connect shared-1',
      '%gpudask disconnect'
    ]);
    // A cluster of its own comes first.
    model.updateCluster(cluster());
    expect(state()).toEqual([false, false]);
  });

  it('finds out after a reload of the page', async () => {
    kernel.comms = { 'comm-1': { target_name: TARGET } };
    await open();
    expect(isOn()).toBe(true);
  });

  it('is enabled for the kernels of notebooks only', async () => {
    await open();
    const isEnabled = (kernelId: string): boolean =>
      app.commands.isEnabled(CommandIDs.accelerate, { kernelId });
    expect([isEnabled('kernel-1'), isEnabled('kernel-2')]).toEqual([
      true,
      false
    ]);
  });
});
