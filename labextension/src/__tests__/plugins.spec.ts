import { IPaletteItem } from '@jupyterlab/apputils';
import { ILauncher } from '@jupyterlab/launcher';
import { INotebookTracker } from '@jupyterlab/notebook';
import { IRunningSessions, RunningSessionManagers } from '@jupyterlab/running';
import { DisposableDelegate } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';

import schema from '../../schema/commands.json';
import { IGpuDask } from '../tokens';
import plugins, { CommandIDs } from '..';
import { startApp, TestApp } from './app';
import { cluster, FakeSocket, IRequest, settingsOf } from './fakeServer';

interface IMenuItem {
  command?: string;
  submenu?: { items: IMenuItem[] };
}

const MENUS: { items: IMenuItem[] }[] = schema['jupyter.lab.menus'].main;

/** The commands of a menu, with those of its submenus. */
function commandsIn(items: IMenuItem[]): string[] {
  return items.flatMap(({ command, submenu }) => [
    ...(command ? [command] : []),
    ...commandsIn(submenu?.items ?? [])
  ]);
}

const byId = new Map(plugins.map(each => [each.id, each]));
let app: TestApp;
let gpuDask: IGpuDask;
let requests: IRequest[];
let answer: (request: IRequest) => Response;

beforeEach(async () => {
  FakeSocket.all = [];
  requests = [];
  answer = () => new Response('{}');
  app = startApp(
    settingsOf(request => {
      requests.push(request);
      return answer(request);
    })
  );
  gpuDask = (await activate('model', null)) as IGpuDask;
});

afterEach(() => {
  app.shell.dispose();
  gpuDask.model.dispose();
});

function activate(name: string, ...tokens: unknown[]): unknown {
  return byId.get(`jupyter-gpudask:${name}`)?.activate(app, ...tokens);
}

/** A notebook whose kernel is kernel-1, as far as it is asked about it. */
const panel = {
  disposed: new Signal<unknown, unknown>({}),
  sessionContext: {
    name: 'mine.ipynb',
    kernelChanged: new Signal<unknown, unknown>({}),
    session: { kernel: { id: 'kernel-1' } }
  }
};
const tracker = {
  currentWidget: panel,
  find: () => undefined,
  forEach: (act: (each: typeof panel) => void) => act(panel),
  widgetAdded: new Signal<unknown, unknown>({})
} as unknown as INotebookTracker;

const settled = (): Promise<void> =>
  new Promise(resolve => setTimeout(resolve, 20));

describe('the optional plugins', () => {
  it('load without the optional tokens', async () => {
    for (const name of ['settings', 'notifications', 'running', 'launcher']) {
      await activate(name, gpuDask, null);
    }
    await activate('notebook', gpuDask, null, null);
    expect(app.commands.hasCommand(CommandIDs.insertCode)).toBe(false);
  });
});

describe('the palette', () => {
  it('has every command of the user', async () => {
    const offered: string[] = [];
    const palette = {
      addItem: ({ command }: IPaletteItem) => {
        offered.push(command);
        return new DisposableDelegate(() => undefined);
      }
    };
    await activate('commands', gpuDask, null, null, palette);
    await activate('panel', gpuDask, null, null, palette);
    await activate('notebook', gpuDask, tracker, palette);
    await activate('history', gpuDask, null, null, palette);
    await activate('toolbar', gpuDask, null, palette, null);
    const { restoreDashboard, ...given } = CommandIDs;
    expect(app.commands.isVisible(restoreDashboard)).toBe(false);
    expect(offered.sort()).toEqual(Object.values(given).sort());
  });
});

describe('the menus', () => {
  it('have every command of the user', () => {
    const [view, kernel] = MENUS.map(({ items }) => commandsIn(items));
    const { restoreDashboard, showPanel, showHistory, ...ofCluster } =
      CommandIDs;
    expect(view).toEqual([showPanel, showHistory]);
    expect(kernel.sort()).toEqual(Object.values(ofCluster).sort());
    expect(kernel).not.toContain(restoreDashboard);
  });
});

describe('jupyter-gpudask:launcher', () => {
  it('has a card with a short name that opens the panel', async () => {
    await activate('panel', gpuDask, null, null, null);
    const items: ILauncher.IItemOptions[] = [];
    await activate('launcher', gpuDask, {
      add: (item: ILauncher.IItemOptions) => {
        items.push(item);
        return new DisposableDelegate(() => undefined);
      }
    });
    expect(items).toHaveLength(1);
    expect(items[0].command).toBe(CommandIDs.showPanel);
    // The card never moves the focus back to a document.
    expect(app.commands.caption(CommandIDs.showPanel, items[0].args)).toBe(
      'Show GPU Dask Panel'
    );
    expect(app.commands.label(items[0].command, items[0].args)).toBe(
      'GPU Dask'
    );
  });
});

describe('jupyter-gpudask:running', () => {
  let manager: IRunningSessions.IManager;

  beforeEach(async () => {
    const managers = new RunningSessionManagers();
    await activate('running', gpuDask, managers);
    [manager] = managers.items();
  });

  const words = (): string[] =>
    manager
      .running({ mode: 'list' })
      .map(item => `${String(item.label())}: ${item.detail?.()}`);

  it('lists the active clusters, also while the stream is closed', async () => {
    const clusters = [
      cluster(),
      cluster({ kernel_id: 'kernel-2', name: 'b.ipynb', status: 'failed' })
    ];
    answer = () => new Response(JSON.stringify({ clusters }));
    const changed = new Promise<void>(resolve => {
      manager.runningChanged.connect(() => resolve());
    });
    expect(words()).toEqual([]);
    await changed;
    expect(words()).toEqual(['analysis.ipynb: 1 GPU']);
  });

  it('opens the panel and stops a cluster', () => {
    const execute = jest.spyOn(app.commands, 'execute').mockResolvedValue(null);
    gpuDask.model.updateCluster(cluster());
    const [item] = manager.running({ mode: 'list' });
    item.open?.();
    item.shutdown?.();
    expect(execute.mock.calls).toEqual([
      [CommandIDs.showPanel],
      [CommandIDs.stop, { kernelId: 'kernel-1' }]
    ]);
  });

  it('stops all clusters after a warning with the size of their results', async () => {
    const { state } = cluster();
    const holding = state && { ...state, held: 2 ** 30 };
    gpuDask.model.updateCluster(cluster({ state: holding }));
    gpuDask.model.updateCluster(
      cluster({ kernel_id: 'kernel-2', state: holding })
    );
    const { shutdownAllConfirmationText: text } = manager;
    expect(typeof text === 'function' && text()).toContain(
      'hold 2.0 GiB of results'
    );
    manager.shutdownAll();
    await settled();
    const stopped = requests
      .filter(({ method }) => method === 'DELETE')
      .map(({ url }) => url.split('/').at(-1));
    expect(stopped).toEqual(['kernel-1', 'kernel-2']);
  });
});

describe('jupyter-gpudask:notebook', () => {
  function follow(autostart: boolean): void {
    gpuDask.model.settings.follow({
      composite: { autostart },
      changed: new Signal<unknown, void>({})
    });
  }

  it('enables the insertion of code if the cluster is ready', async () => {
    await activate('notebook', gpuDask, tracker, null);
    const args = { kernelId: 'kernel-1' };
    expect(app.commands.isEnabled(CommandIDs.insertCode, args)).toBe(false);
    gpuDask.model.updateCluster(cluster());
    expect(app.commands.isEnabled(CommandIDs.insertCode, args)).toBe(true);
  });

  it('enables the insertion of code when a notebook is opened after its cluster was started', async () => {
    const panels: (typeof panel)[] = [];
    const widgetAdded = new Signal<unknown, typeof panel>({});
    const empty = {
      currentWidget: null,
      find: (isMeant: (each: typeof panel) => boolean) => panels.find(isMeant),
      forEach: () => undefined,
      widgetAdded
    } as unknown as INotebookTracker;
    await activate('notebook', gpuDask, empty, null);
    gpuDask.model.updateCluster(cluster());
    const args = { kernelId: 'kernel-1' };
    const isEnabled: boolean[] = [];
    app.commands.commandChanged.connect((_, { id }) => {
      if (id === CommandIDs.insertCode) {
        isEnabled.push(app.commands.isEnabled(CommandIDs.insertCode, args));
      }
    });
    const late = {
      ...panel,
      sessionContext: {
        ...panel.sessionContext,
        kernelChanged: new Signal<unknown, unknown>({}),
        session: null as unknown as { kernel: { id: string } }
      }
    };
    panels.push(late);
    widgetAdded.emit(late);
    late.sessionContext.session = panel.sessionContext.session;
    late.sessionContext.kernelChanged.emit({});
    expect(isEnabled).toEqual([false, true]);
  });

  it('starts no cluster unless the user has enabled it', async () => {
    await activate('notebook', gpuDask, tracker, null);
    follow(false);
    panel.sessionContext.kernelChanged.emit({});
    await settled();
    expect(requests).toEqual([]);
  });

  it('starts a cluster with each kernel if the user has enabled it', async () => {
    const profiles = { profiles: [], default: cluster().spec };
    answer = ({ method }) =>
      new Response(
        JSON.stringify(
          method === 'GET' ? profiles : cluster({ status: 'starting' })
        )
      );
    follow(true);
    await activate('notebook', gpuDask, tracker, null);
    await settled();
    expect(requests.at(-1)?.body).toEqual({
      kernel_id: 'kernel-1',
      spec: { gpus: 'free' }
    });
    expect(gpuDask.model.clusters.get('kernel-1')?.status).toBe('starting');
  });
});
