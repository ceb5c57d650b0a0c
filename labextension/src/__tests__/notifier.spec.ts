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
let isPanelVisible: boolean;

beforeEach(() => {
  FakeSocket.all = [];
  log = '';
  isPanelVisible = false;
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
  notifier = new Notifier(gpuDask, rest, () => isPanelVisible);
});

afterEach(() => {
  notifier.dispose();
  model.dispose();
  current.dispose();
  app.shell.dispose();
  Notification.dismiss();
});

/** The messages that are shown after these states of the cluster. */
async function messagesAfter(...states: ICluster[]): Promise<string[]> {
  states.forEach(state => model.updateCluster(state));
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
  it('report a failed cluster once, with actions', async () => {
    expect(await messagesAfter(cluster(), lost, lost)).toEqual([
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

  it('are dismissed when the state of the cluster has changed', async () => {
    expect(await messagesAfter(cluster(), lost)).toHaveLength(1);
    expect(await messagesAfter(cluster({ since: 3, pid: 300 }))).toEqual([]);
    log = 'Worker process 7 was killed by signal 9';
    expect(await messagesAfter(withWorker(7), withWorker(8))).toHaveLength(1);
    model.removeCluster('kernel-1');
    expect(await messagesAfter()).toEqual([]);
  });

  it('are not shown if the cluster has changed before its log was read', async () => {
    log = 'Worker process 7 was killed by signal 9';
    const again = cluster({ since: 3, pid: 300 });
    expect(await messagesAfter(withWorker(7), withWorker(8), again)).toEqual(
      []
    );
  });

  it('are not shown for a failed cluster while the panel is visible', async () => {
    isPanelVisible = true;
    expect(await messagesAfter(cluster(), lost)).toEqual([]);
  });

  it('are not shown if the user has disabled them', async () => {
    model.settings.follow({
      composite: { notifications: false },
      changed: new Signal<unknown, void>({})
    });
    expect(await messagesAfter(cluster(), lost)).toEqual([]);
  });

  it('report a worker that ran out of host memory, also while the panel is visible', async () => {
    isPanelVisible = true;
    log = 'Worker x (pid=7) exceeded 95% memory budget. Restarting...';
    expect(await messagesAfter(withWorker(7), withWorker(8))).toEqual([
      'analysis.ipynb: a worker ran out of host memory (GPU 0). Dask restarted it and recomputes its results.'
    ]);
  });

  it('report tasks that ran out of device memory, once while the notification is shown', async () => {
    isPanelVisible = true;
    const withCount = (out_of_memory: number): ICluster => {
      const { state } = cluster();
      const workers = state?.workers.map(each => ({ ...each, out_of_memory }));
      return cluster({ state: state && { ...state, workers: workers ?? [] } });
    };
    const messages = await messagesAfter(...[0, 1, 2].map(withCount));
    expect(messages).toEqual([
      expect.stringMatching(/^analysis.ipynb: a task ran out of device memory/)
    ]);
    const [{ id }] = Notification.manager.notifications;
    expect(await messagesAfter(withCount(3))).toEqual(messages);
    expect(Notification.manager.notifications[0].id).toBe(id);
    Notification.dismiss(id);
    expect(await messagesAfter(withCount(4))).toEqual(messages);
  });

  it('report a worker that was killed, but not one that was restarted on purpose', async () => {
    expect(await messagesAfter(withWorker(7), withWorker(8))).toEqual([]);
    log = 'Worker process 8 was killed by signal 9';
    expect(await messagesAfter(withWorker(9))).toEqual([
      'analysis.ipynb: a worker was lost (GPU 0). Dask restarted it and recomputes its results.'
    ]);
  });
});
