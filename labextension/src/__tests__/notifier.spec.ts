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
import { cluster, FakeSocket, GIB, settingsOf } from './fakeServer';

let app: TestApp;
let model: GpuDaskModel;
let current: CurrentKernel;
let commands: CommandRegistry;
let notifier: Notifier;
let isPanelVisible: boolean;

beforeEach(() => {
  FakeSocket.all = [];
  isPanelVisible = false;
  const rest = new RestClient(settingsOf(() => new Response('{}')));
  app = startApp(rest.settings);
  model = new GpuDaskModel(new Connection(rest));
  commands = new CommandRegistry();
  current = new CurrentKernel(app.shell);
  const gpuDask = {
    model,
    current,
    commands,
    trans: nullTranslator.load('jupyter_gpudask'),
    rest: model.connection.rest,
    language: 'en'
  };
  notifier = new Notifier(gpuDask, () => isPanelVisible);
});

afterEach(() => {
  notifier.dispose();
  model.dispose();
  app.shell.dispose();
  Notification.dismiss();
});

/** The messages that are shown after these states of the cluster. */
function messagesAfter(...states: ICluster[]): string[] {
  states.forEach(state => model.updateCluster(state));
  return Notification.manager.notifications.map(({ message }) => message);
}

const lost = cluster({
  status: 'failed',
  since: 2,
  reason: 'The process was killed.',
  fix: 'Type: %gpudask restart',
  log: 'last line'
});

/** The cluster after its worker has exited. */
function withExit(over_memory_limit: boolean): ICluster {
  const { state } = cluster();
  const exit = {
    worker: '0',
    pid: 101,
    time: 1,
    reason: '',
    over_memory_limit
  };
  return cluster({ state: state && { ...state, worker_exits: [exit] } });
}

describe('notifications', () => {
  it('report a failed cluster once, with actions', () => {
    expect(messagesAfter(cluster(), lost, lost)).toEqual([
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

  it('are dismissed when the state of the cluster has changed', () => {
    expect(messagesAfter(cluster(), lost)).toHaveLength(1);
    expect(messagesAfter(cluster({ since: 3, pid: 300 }))).toEqual([]);
    expect(messagesAfter(cluster(), withExit(false))).toHaveLength(1);
    model.removeCluster('kernel-1');
    expect(messagesAfter()).toEqual([]);
  });

  it('are not shown for a failed cluster while the panel is visible', () => {
    isPanelVisible = true;
    expect(messagesAfter(cluster(), lost)).toEqual([]);
  });

  it('are not shown if the user has disabled them', () => {
    model.settings.follow({
      composite: { notifications: false },
      changed: new Signal<unknown, void>({})
    });
    expect(messagesAfter(cluster(), lost)).toEqual([]);
  });

  it('report a worker that ran out of host memory, also while the panel is visible', () => {
    isPanelVisible = true;
    expect(messagesAfter(cluster(), withExit(true))).toEqual([
      'analysis.ipynb: a worker ran out of host memory (GPU 0). Dask restarts it and recomputes its results.'
    ]);
  });

  it('report tasks that ran out of device memory, once while the notification is shown', () => {
    isPanelVisible = true;
    const withCount = (out_of_memory: number): ICluster => {
      const { state } = cluster();
      const workers = state?.workers.map(each => ({ ...each, out_of_memory }));
      return cluster({ state: state && { ...state, workers: workers ?? [] } });
    };
    const messages = messagesAfter(...[0, 1, 2].map(withCount));
    expect(messages).toEqual([
      expect.stringMatching(/^analysis.ipynb: a task ran out of device memory/)
    ]);
    const [{ id }] = Notification.manager.notifications;
    expect(messagesAfter(withCount(3))).toEqual(messages);
    expect(Notification.manager.notifications[0].id).toBe(id);
    Notification.dismiss(id);
    expect(messagesAfter(withCount(4))).toEqual(messages);
  });

  it('say that the GPUs of an idle cluster are wanted, until they are kept', () => {
    isPanelVisible = true;
    const wanted = cluster({
      wanted_by: 'user anna since 14:05',
      given_over_at: 1000
    });
    const [message] = messagesAfter(cluster(), wanted, wanted);
    expect(message).toMatch(
      /^analysis.ipynb: GPUs wanted by user anna since 14:05. The idle cluster closes at [\d:]+ unless kept.$/
    );
    const [{ options }] = Notification.manager.notifications;
    const execute = jest.spyOn(commands, 'execute').mockResolvedValue(null);
    options.actions?.[0].callback(new MouseEvent('click'));
    expect(execute).toHaveBeenCalledWith(CommandIDs.keep, {
      kernelId: 'kernel-1',
      since: 1000
    });
    expect(messagesAfter(cluster())).toEqual([]);
  });

  it('warn once that a cluster will be closed at the end of its maximum lifetime', () => {
    const { state } = cluster();
    const warned = cluster({ state: state && { ...state, closes_at: 2000 } });
    expect(messagesAfter(cluster(), warned, warned)).toEqual([
      expect.stringMatching(
        /^analysis.ipynb: the cluster closes at [\d:]+, the end of its maximum lifetime. Store the results that you need.$/
      )
    ]);
  });

  it('say who wants the GPUs, when they are given over, and what that loses, however long the names are', () => {
    const name = `projects/${'customer segmentation/'.repeat(8)}analysis.ipynb`;
    const { state } = cluster();
    const wanted = cluster({
      name,
      notebooks: [name],
      state: state && { ...state, result_bytes: 3 * GIB },
      wanted_by:
        'user wilhelmina.featherstonehaugh@research.example.org since 14:05',
      given_over_at: 1000
    });
    const [message] = messagesAfter(cluster(), wanted);
    // JupyterLab shows no more.
    expect(message.length).toBeLessThanOrEqual(140);
    expect(message).toMatch(
      /^projects.*….*analysis.ipynb: GPUs wanted by user \S*….* since 14:05. Closes at [\d:]+ and loses 3.0 GiB of results, unless kept.$/
    );
  });

  it('of clusters of notebooks that are not open are hidden with them', () => {
    model.settings.follow({
      composite: { otherClusters: 'hide' },
      changed: new Signal<unknown, void>({})
    });
    expect(messagesAfter(cluster(), lost)).toEqual([]);
    const isOpen = jest.spyOn(current, 'isOpen').mockReturnValue(true);
    expect(messagesAfter(cluster(), { ...lost, since: 3 })).toHaveLength(1);
    expect(isOpen).toHaveBeenLastCalledWith('kernel-1');
  });

  it('have no button for what the settings do not offer', () => {
    model.settings.follow({
      composite: { allowStart: false },
      changed: new Signal<unknown, void>({})
    });
    messagesAfter(cluster(), lost);
    const [{ options }] = Notification.manager.notifications;
    expect(options.actions?.map(({ label }) => label)).toEqual(['Logs']);
  });

  it('report a worker that was lost', () => {
    expect(messagesAfter(cluster(), withExit(false))).toEqual([
      'analysis.ipynb: a worker was lost (GPU 0). Dask restarts it and recomputes its results.'
    ]);
  });
});
