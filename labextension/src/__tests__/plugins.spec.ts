import { ILayoutRestorer } from '@jupyterlab/application';
import { IPaletteItem } from '@jupyterlab/apputils';
import { ILauncher } from '@jupyterlab/launcher';
import { INotebookTracker } from '@jupyterlab/notebook';
import { IRunningSessions, RunningSessionManagers } from '@jupyterlab/running';
import { IStatusBar } from '@jupyterlab/statusbar';
import { framePromise } from '@jupyterlab/testing';
import { nullTranslator } from '@jupyterlab/translation';
import { DisposableDelegate } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';
import { DockLayout, Widget } from '@lumino/widgets';

import schema from '../../schema/commands.json';
import { currentGpus } from '../cluster/snapshot';
import { runRefusedCells } from '../notebook/notebookPlugin';
import { PANEL_ID } from '../panel/panel';
import { IGpuDask } from '../tokens';
import plugins, { CommandIDs } from '..';
import { startApp, TestApp } from './app';
import {
  cluster,
  details,
  FakeSocket,
  gpu,
  IRequest,
  rendered,
  settingsOf
} from './fakeServer';

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
/** The addresses of the cluster's plots by title. */
let plots: { [title: string]: string };

beforeEach(async () => {
  FakeSocket.all = [];
  requests = [];
  plots = {};
  answer = () => new Response(JSON.stringify(plots));
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
    statusChanged: new Signal<unknown, unknown>({}),
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

/** Wait for a condition; what never happens ends with the limit of the test. */
async function until(condition: () => boolean): Promise<void> {
  while (!condition()) {
    await settled();
  }
}

describe('the plugins', () => {
  it('have unique ids in the namespace of the package', () => {
    const ids = plugins.map(each => each.id);
    expect(new Set(ids).size).toBe(ids.length);
    ids.forEach(id => expect(id).toMatch(/^jupyter-gpudask:[a-z-]+$/));
  });

  it('require no token but their own, so that they load in Notebook 7', () => {
    const required = new Set(plugins.flatMap(each => each.requires ?? []));
    expect([...required]).toEqual([IGpuDask]);
    expect(byId.get('jupyter-gpudask:model')?.provides).toBe(IGpuDask);
  });

  it('load without the optional tokens', async () => {
    for (const { id, activate } of plugins.slice(1)) {
      if (id !== 'jupyter-gpudask:settings') {
        await activate(app as never, gpuDask, null, null, null);
      }
    }
    const ids = Array.from(app.shell.widgets('left'), widget => widget.id);
    expect(ids).toEqual([PANEL_ID]);
    expect(app.commands.hasCommand(CommandIDs.insertCode)).toBe(false);
  });

  it('use the language of JupyterLab', async () => {
    const translator = { ...nullTranslator, languageCode: 'de-DE' };
    const load = (domain: string): unknown => nullTranslator.load(domain);
    const german = await activate('model', { ...translator, load });
    expect((german as IGpuDask).language).toBe('de-DE');
    (german as IGpuDask).model.dispose();
    expect(gpuDask.language).toBe('en');
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
    const { restoreDashboard, showCell, useShared, ...given } = CommandIDs;
    expect(app.commands.isVisible(useShared)).toBe(false);
    expect(app.commands.isVisible(showCell)).toBe(false);
    expect(app.commands.isVisible(restoreDashboard)).toBe(false);
    expect(offered.sort()).toEqual(Object.values(given).sort());
  });
});

describe('the menus', () => {
  it('have every command of the user', () => {
    const [view, kernel] = MENUS.map(({ items }) => commandsIn(items));
    const { restoreDashboard, showCell, useShared, ...shown } = CommandIDs;
    const { showPanel, showHistory, ...ofCluster } = shown;
    expect(view).toEqual([showPanel, showHistory]);
    expect(kernel.sort()).toEqual(Object.values(ofCluster).sort());
    expect(kernel).not.toContain(restoreDashboard);
    expect(kernel).not.toContain(showCell);
    expect(kernel).not.toContain(useShared);
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
    const holding = state && { ...state, result_bytes: 2 ** 30 };
    gpuDask.model.updateCluster(cluster({ state: holding }));
    gpuDask.model.updateCluster(
      cluster({ kernel_id: 'kernel-2', state: holding })
    );
    const { shutdownAllConfirmationText: text } = manager;
    expect(typeof text === 'function' && text()).toContain(
      'hold 2.0 GiB of results'
    );
    const stopped = (): (string | undefined)[] =>
      requests
        .filter(({ method }) => method === 'DELETE')
        .map(({ url }) => url.split('/').at(-1));
    manager.shutdownAll();
    await until(() => stopped().length === 2);
    expect(stopped()).toEqual(['kernel-1', 'kernel-2']);
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
        statusChanged: new Signal<unknown, unknown>({}),
        session: null as unknown as { kernel: { id: string } }
      }
    };
    panels.push(late);
    widgetAdded.emit(late);
    late.sessionContext.session = panel.sessionContext.session;
    late.sessionContext.kernelChanged.emit({});
    expect(isEnabled).toEqual([false, true]);
  });

  it('keeps over a reload for which cluster a refused cell waits', async () => {
    const kept = (): string | null => {
      window.dispatchEvent(new Event('pagehide'));
      return sessionStorage.getItem('jupyter-gpudask:refused');
    };
    const { model } = gpuDask;
    const status = 'failed' as const;
    const reason = 'GPU 0 is reserved by other.ipynb.';
    runRefusedCells(gpuDask, tracker);
    model.updateCluster(cluster({ status, reason, reserved_gpus: ['GPU-0'] }));
    expect(kept()).toBe('[]');
    app.commands.addCommand('wait', {
      describedBy: { args: {} },
      execute: async () => {
        await settled();
        model.updateCluster(cluster({ status: 'starting' }));
      }
    });
    await app.commands.execute('wait', { kernelId: 'kernel-1' });
    expect(kept()).toBe(JSON.stringify([['kernel-1', reason]]));
    runRefusedCells(gpuDask, tracker);
    expect(sessionStorage.getItem('jupyter-gpudask:refused')).toBeNull();
    expect(kept()).toBe(JSON.stringify([['kernel-1', reason]]));
  });

  it('starts no cluster unless the user has enabled it', async () => {
    await activate('notebook', gpuDask, tracker, null);
    follow(false);
    panel.sessionContext.kernelChanged.emit({});
    await settled();
    expect(requests).toEqual([]);
  });

  it('starts a cluster with each kernel if the user has enabled it', async () => {
    const presets = { presets: [], default: cluster().spec };
    answer = ({ method }) =>
      new Response(
        JSON.stringify(
          method === 'GET' ? presets : cluster({ status: 'starting' })
        )
      );
    follow(true);
    await activate('notebook', gpuDask, tracker, null);
    await until(() => gpuDask.model.clusters.has('kernel-1'));
    expect(requests.at(-1)?.body).toEqual({
      kernel_id: 'kernel-1',
      spec: { gpus: 'free' }
    });
    expect(gpuDask.model.clusters.get('kernel-1')?.status).toBe('starting');
  });
});

describe('jupyter-gpudask:panel', () => {
  it('does not connect while the panel is hidden', async () => {
    await activate('panel', gpuDask, null, null, null);
    app.shell.collapseLeft();
    expect(FakeSocket.all.filter(socket => !socket.isClosed)).toEqual([]);
  });

  it('shows the panel and connects by its command', async () => {
    await activate('panel', gpuDask, null, null, null);
    app.shell.collapseLeft();

    await app.commands.execute(CommandIDs.showPanel);

    const [widget] = app.shell.widgets('left');
    expect(widget.isVisible).toBe(true);
    expect(FakeSocket.last.isClosed).toBe(false);
    app.shell.collapseLeft();
    expect(FakeSocket.last.isClosed).toBe(true);
  });

  it('moves the focus to the panel and back by its command', async () => {
    await activate('panel', gpuDask, null, null, null);
    const document_ = new Widget();
    document_.id = 'document';
    document_.node.tabIndex = -1;
    document_.activate = () => document_.node.focus();
    app.shell.add(document_, 'main');
    app.shell.activateById('document');
    document_.node.focus();
    const [widget] = app.shell.widgets('left');

    await app.commands.execute(CommandIDs.showPanel);
    await framePromise();
    expect(widget.node.contains(document.activeElement)).toBe(true);

    await app.commands.execute(CommandIDs.showPanel);
    expect(document.activeElement).toBe(document_.node);
    expect(widget.isVisible).toBe(true);
  });

  it('adds the panel to the layout restorer', async () => {
    const kept: string[] = [];
    const restorer: Pick<ILayoutRestorer, 'add'> = {
      add: (widget, name) => kept.push(`${widget.id} as ${name}`)
    };
    await activate('panel', gpuDask, nullTranslator, restorer, null);
    expect(kept).toEqual([`${PANEL_ID} as ${PANEL_ID}`]);
  });
});

describe('jupyter-gpudask:commands', () => {
  const args = { kernelId: 'kernel-1' };

  it('enables the commands that the state of the cluster allows', async () => {
    await activate('commands', gpuDask, null, null, null);
    const enabled = (): string[] =>
      Object.entries(CommandIDs)
        .filter(([name]) => !['showPanel', 'reconnect'].includes(name))
        .filter(([, id]) => app.commands.isEnabled(id, args))
        .map(([name]) => name)
        .filter(name => name !== 'restoreDashboard');

    expect(enabled()).toEqual(['start', 'startWithOptions', 'startShared']);
    gpuDask.model.updateCluster(cluster({ status: 'starting' }));
    expect(enabled()).toEqual(['startShared', 'stop']);
    gpuDask.model.updateCluster(cluster());
    expect(enabled()).toEqual([
      'startShared',
      'scale',
      'stop',
      'restart',
      'showLogs',
      'openDashboard',
      'openPlots',
      'choosePlot',
      'copyCode'
    ]);
    gpuDask.model.updateCluster(cluster({ status: 'failed' }));
    expect(enabled()).toEqual([
      'start',
      'startWithOptions',
      'startShared',
      'restart',
      'showLogs'
    ]);
    const actions = ['start-on-free', 'share', 'wait', 'use-cpu', 'unknown'];
    const error = details({ actions });
    gpuDask.model.updateCluster(cluster({ status: 'failed', error }));
    expect(enabled().slice(1, 5)).toEqual([
      'startOnFree',
      'startSharing',
      'startWaiting',
      'startOnCpu'
    ]);
  });

  describe('in JupyterLab', () => {
    const shownPlots = (): string[] =>
      Array.from(app.shell.widgets('main'), widget => widget.title.label)
        .filter(label => label.includes(':'))
        .map(label => label.split(':')[0]);
    /** The splits of the main area, with the first letters of the tabs in each. */
    const areas = (): string => {
      const words = (area: DockLayout.AreaConfig | null): string =>
        area?.type === 'split-area'
          ? `${area.orientation[0]}(${area.children.map(words).join(' ')})`
          : (area?.widgets.map(({ title }) => title.label[0]).join('') ?? '');
      const layout = app.shell.saveLayout().mainArea?.dock;
      return words(layout?.main ?? null);
    };

    beforeEach(async () => {
      plots = {
        'Individual Progress': '/individual-progress',
        'Individual Cpu': '/individual-cpu',
        'Individual Workers Memory': '/individual-workers-memory',
        'Individual Task Stream': '/individual-task-stream'
      };
      await activate('commands', gpuDask, app.shell, null, null);
      gpuDask.model.updateCluster(cluster({ engine: 'cpu' }));
      const document_ = new Widget();
      Object.assign(document_, {
        sessionContext: { session: { kernel: { id: 'kernel-1' } } }
      });
      document_.id = document_.title.label = 'notebook';
      app.shell.add(document_, 'main');
    });

    it('opens the plots of the setting where it places them, once', async () => {
      await app.commands.execute(CommandIDs.openPlots, args);
      expect(shownPlots()).toEqual(['Task Stream', 'Progress']);
      expect(areas()).toBe('h(n v(T P))');
      await app.commands.execute(CommandIDs.openPlots, args);
      expect(areas()).toBe('h(n v(T P))');
    });

    it('opens a layout by its name, and moves the plots that are open', async () => {
      await app.commands.execute(CommandIDs.openPlots, args);
      await app.commands.execute(CommandIDs.openLayout, {
        ...args,
        layout: 'Workers'
      });
      expect(areas()).toBe('h(n v(T h(W P)))');
      expect(shownPlots().sort()).toEqual([
        'Progress',
        'Task Stream',
        'Workers Memory'
      ]);
    });

    it('closes all tabs with pages of Dask, and only these', async () => {
      const { closePlots } = CommandIDs;
      expect(app.commands.isEnabled(closePlots)).toBe(false);
      await app.commands.execute(CommandIDs.openPlots, args);
      await app.commands.execute(CommandIDs.openDashboard, args);
      expect(app.commands.isEnabled(closePlots)).toBe(true);
      await app.commands.execute(closePlots);
      expect(areas()).toBe('n');
      expect(app.commands.isEnabled(closePlots)).toBe(false);
    });

    it('opens tabs in the main area after the panel was moved to the right sidebar', async () => {
      await activate('panel', gpuDask, null, null, null);
      await activate('history', gpuDask, app.shell, null, null);
      const [sidePanel] = app.shell.widgets('left');
      app.shell.move(sidePanel, 'right');
      await app.commands.execute(CommandIDs.openPlots, args);
      await app.commands.execute(CommandIDs.showHistory);
      await app.commands.execute(CommandIDs.showLogs, args);
      await app.commands.execute(CommandIDs.showLogs, args);
      const ids = Array.from(app.shell.widgets('right'), ({ id }) => id);
      expect(ids).toEqual([PANEL_ID]);
      expect([...app.shell.widgets('main')]).toHaveLength(5);
    });

    it('lists the layouts if none has the name', async () => {
      await app.commands.execute(CommandIDs.openLayout, args);
      await rendered();
      const palette = document.getElementById('jupyter-gpudask-plots');
      expect(palette?.textContent).toContain('DefaultWorkersStatus');
      palette?.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' }));
      await rendered();
      expect(shownPlots()).toEqual([]);
    });
  });

  it('has no layouts where there are no tabs', async () => {
    await activate('commands', gpuDask, null, null, null);
    gpuDask.model.updateCluster(cluster());
    expect(app.commands.isEnabled(CommandIDs.openLayout, args)).toBe(false);
    expect(app.commands.isEnabled(CommandIDs.openPlots, args)).toBe(true);
  });

  it('lists these plots first where all plots can be searched', async () => {
    plots = {
      'Individual Bandwidth': '/individual-bandwidth',
      'Individual Task Stream': '/individual-task-stream'
    };
    await activate('commands', gpuDask, app.shell, null, null);
    gpuDask.model.updateCluster(cluster());
    await app.commands.execute(CommandIDs.choosePlot, args);
    await rendered();
    const palette = document.getElementById('jupyter-gpudask-plots');
    const shown = (): (string | null)[] =>
      Array.from(
        palette?.querySelectorAll('.lm-CommandPalette-itemLabel') ?? [],
        node => node.textContent
      );
    expect(shown()).toEqual([
      'Task Stream',
      'Layout: Default',
      'Layout: Workers',
      'Layout: Status',
      'Bandwidth'
    ]);
    const escape = new KeyboardEvent('keydown', { key: 'Escape' });
    palette?.dispatchEvent(escape);
    await rendered();
    expect(document.getElementById('jupyter-gpudask-plots')).toBeNull();
  });

  it('sends one request for two clicks, and disables what changes the cluster meanwhile', async () => {
    await activate('commands', gpuDask, null, null, null);
    answer = ({ method }) =>
      new Response(
        JSON.stringify(method === 'GET' ? { default: {} } : cluster())
      );
    const first = app.commands.execute(CommandIDs.start, args);
    expect(app.commands.isEnabled(CommandIDs.start, args)).toBe(false);
    const second = app.commands.execute(CommandIDs.start, args);
    await Promise.all([first, second]);
    const sent = requests.map(({ method }) => method);
    expect(sent.filter(method => method === 'POST')).toHaveLength(1);
    expect(app.commands.isEnabled(CommandIDs.stop, args)).toBe(true);
  });

  it('disables a command for a cluster that was replaced', async () => {
    await activate('commands', gpuDask, null, null, null);
    gpuDask.model.updateCluster(cluster({ since: 3 }));
    const restart = (since: number): boolean =>
      app.commands.isEnabled(CommandIDs.restart, { ...args, since });
    expect([restart(3), restart(2)]).toEqual([true, false]);
  });

  it('opens a dashboard in a new page if there are no tabs', async () => {
    const open = jest.spyOn(window, 'open').mockReturnValue(null);
    await activate('commands', gpuDask, null, null, null);
    gpuDask.model.updateCluster(cluster());
    await app.commands.execute(CommandIDs.openDashboard, args);
    expect(open.mock.calls[0][0]).toBe(
      'http://server/user/ada/gpudask/dashboard/kernel-1/status'
    );
    document.body.dataset.jpThemeLight = 'false';
    await app.commands.execute(CommandIDs.openDashboard, args);
    delete document.body.dataset.jpThemeLight;
    expect(open.mock.calls[1][0]).toBe(
      'http://server/user/ada/gpudask/dashboard/kernel-1/status?theme=dark'
    );
    open.mockRestore();
  });

  it('opens one tab for each dashboard in JupyterLab', async () => {
    await activate('commands', gpuDask, app.shell, null, null);
    gpuDask.model.updateCluster(cluster());
    await app.commands.execute(CommandIDs.openDashboard, args);
    await app.commands.execute(CommandIDs.openDashboard, args);
    const labels = Array.from(
      app.shell.widgets('main'),
      widget => widget.title.label
    );
    expect(labels).toEqual(['Dask: analysis.ipynb']);
  });
});

describe('jupyter-gpudask:status', () => {
  it('is active while the current notebook has GPUs', async () => {
    let item: IStatusBar.IItem | undefined;
    const bar: IStatusBar = {
      registerStatusItem: (_, options) => {
        item = options;
        return new DisposableDelegate(() => undefined);
      }
    };
    await activate('status', gpuDask, bar);
    expect(item?.isActive?.()).toBe(false);

    jest.spyOn(gpuDask.current, 'kernelId', 'get').mockReturnValue('kernel-1');
    const subscription = gpuDask.model.subscribe();
    FakeSocket.last.send({
      gpus: { gpus: [gpu()], waiting: [], reason: '', fix: '', error: null },
      clusters: [cluster()]
    });
    expect(item?.isActive?.()).toBe(true);

    const { state } = cluster();
    const scaled = cluster({
      gpus: ['GPU-0', 'GPU-1'],
      state: state && { ...state, gpus: ['GPU-1'] }
    });
    gpuDask.model.updateCluster(scaled);
    expect(currentGpus(gpuDask)).toEqual([]);
    subscription.dispose();
  });
});
