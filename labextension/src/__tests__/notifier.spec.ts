import { Notification } from '@jupyterlab/apputils';
import { nullTranslator } from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';
import { Signal } from '@lumino/signaling';

import { CommandIDs } from '../commandIDs';
import { ICluster } from '../model/api';
import { Connection } from '../model/connection';
import { GpuDaskModel } from '../model/model';
import { RestClient } from '../model/rest';
import { CurrentKernel } from '../notebook/currentKernel';
import { Notifier } from '../notifications/notifier';
import { startApp, TestApp } from './app';
import { cluster, FakeSocket, settingsOf } from './fakeServer';

let app: TestApp;
let model: GpuDaskModel;
let current: CurrentKernel;
let commands: CommandRegistry;
let notifier: Notifier;
let log: string;
let isSeen: boolean;

beforeEach(() => {
  FakeSocket.all = [];
  log = '';
  isSeen = false;
  const rest = new RestClient(
    settingsOf(
      () => new Response(JSON.stringify({ logs: { supervisor: log } }))
    )
  );
  app = startApp(rest.settings);
  model = new GpuDaskModel(new Connection(rest));
  commands = new CommandRegistry();
  current = new CurrentKernel(app.shell);
  const gpuDask = {
    model,
    current,
    commands,
    trans: nullTranslator.load('jupyter_gpudask')
  };
  notifier = new Notifier(gpuDask, rest, () => isSeen);
});

afterEach(() => {
  notifier.dispose();
  model.dispose();
  current.dispose();
  app.shell.dispose();
  Notification.dismiss();
});

/** Let these states follow each other; what is told then. */
async function told(...states: ICluster[]): Promise<string[]> {
  states.forEach(state => model.put(state));
  await new Promise(resolve => setTimeout(resolve, 20));
  return Notification.manager.notifications.map(({ message }) => message);
}

const lost = cluster({
  status: 'failed',
  since: 2,
  reason: 'The process was killed.',
  fix: 'Type: %gpudask restart\nlast line'
});

/** The cluster, with another process for its worker. */
function withWorker(pid: number): ICluster {
  const { state } = cluster();
  const workers = state?.workers.map(worker => ({ ...worker, pid })) ?? [];
  return cluster({ state: state && { ...state, workers } });
}

describe('notifications', () => {
  it('tell once of a cluster that has failed, and how to go on', async () => {
    expect(await told(cluster(), lost, lost)).toEqual([
      'The cluster of analysis.ipynb has failed: The process was killed.'
    ]);
    const [{ options }] = Notification.manager.notifications;
    expect(options.actions?.map(({ label }) => label)).toEqual([
      'Start again',
      'Logs'
    ]);
    const execute = jest.spyOn(commands, 'execute').mockResolvedValue(null);
    options.actions?.[1].callback(new MouseEvent('click'));
    expect(execute).toHaveBeenCalledWith(CommandIDs.showLogs, {
      kernelId: 'kernel-1',
      since: 2
    });
  });

  it('go when the cluster that they are about is no longer so', async () => {
    expect(await told(cluster(), lost)).toHaveLength(1);
    expect(await told(cluster({ since: 3, pid: 300 }))).toEqual([]);
    log = 'Worker process 7 was killed by signal 9';
    expect(await told(withWorker(7), withWorker(8))).toHaveLength(1);
    model.remove('kernel-1');
    expect(await told()).toEqual([]);
  });

  it('say nothing of what was over before its log was read', async () => {
    log = 'Worker process 7 was killed by signal 9';
    const again = cluster({ since: 3, pid: 300 });
    expect(await told(withWorker(7), withWorker(8), again)).toEqual([]);
  });

  it('say nothing that the card says which is in view', async () => {
    isSeen = true;
    expect(await told(cluster(), lost)).toEqual([]);
  });

  it('say nothing where the user wants none', async () => {
    model.settings.follow({
      composite: { notifications: false },
      changed: new Signal<unknown, void>({})
    });
    expect(await told(cluster(), lost)).toEqual([]);
  });

  it('tell of a worker that ran out of memory, also while the panel is in view', async () => {
    isSeen = true;
    log = 'Worker x (pid=7) exceeded 95% memory budget. Restarting...';
    expect(await told(withWorker(7), withWorker(8))).toEqual([
      'analysis.ipynb: GPU 0 ran out of host memory. Its worker was started again, and Dask computes again what it held.'
    ]);
  });

  it('tell of tasks that ran out of device memory, once as long as that is read', async () => {
    isSeen = true;
    const withShortages = (out_of_memory: number): ICluster => {
      const { state } = cluster();
      const workers = state?.workers.map(each => ({ ...each, out_of_memory }));
      return cluster({ state: state && { ...state, workers: workers ?? [] } });
    };
    const told_ = await told(...[0, 1, 2].map(withShortages));
    expect(told_).toEqual([
      expect.stringMatching(/^analysis.ipynb: a task ran out of device memory/)
    ]);
    const [{ id }] = Notification.manager.notifications;
    expect(await told(withShortages(3))).toEqual(told_);
    expect(Notification.manager.notifications[0].id).toBe(id);
    Notification.dismiss(id);
    expect(await told(withShortages(4))).toEqual(told_);
  });

  it('tell of a worker that was killed, and not of one that was restarted on purpose', async () => {
    expect(await told(withWorker(7), withWorker(8))).toEqual([]);
    log = 'Worker process 8 was killed by signal 9';
    expect(await told(withWorker(9))).toEqual([
      'analysis.ipynb: GPU 0 lost its worker. Another was started, and Dask computes again what it held.'
    ]);
  });
});
