import { ILayoutRestorer } from '@jupyterlab/application';
import { ICommandPalette, IPaletteItem } from '@jupyterlab/apputils';
import { IStatusBar } from '@jupyterlab/statusbar';
import { framePromise } from '@jupyterlab/testing';
import { nullTranslator } from '@jupyterlab/translation';
import { DisposableDelegate } from '@lumino/disposable';
import { DockLayout, Widget } from '@lumino/widgets';

import { currentGpus } from '../notebook/clusterButton';
import { PANEL_ID } from '../panel/panel';
import { IGpuDask } from '../tokens';
import plugins, { CommandIDs } from '..';
import { startApp, TestApp } from './app';
import {
  cluster,
  details,
  FakeSocket,
  gpu,
  rendered,
  settingsOf
} from './fakeServer';

const [model, commands, panel, toolbar, statusBar] = plugins;
const history = plugins[plugins.length - 1];
let app: TestApp;
let gpuDask: IGpuDask;
/** The addresses of the cluster's plots by title. */
let plots: { [title: string]: string };

beforeEach(async () => {
  FakeSocket.all = [];
  plots = {};
  app = startApp(settingsOf(() => new Response(JSON.stringify(plots))));
  gpuDask = (await model.activate(app, null)) as IGpuDask;
});

afterEach(() => {
  app.shell.dispose();
  gpuDask.model.dispose();
});

/** A palette that records its items. */
function newPalette(): {
  items: IPaletteItem[];
  addItem: ICommandPalette['addItem'];
} {
  const items: IPaletteItem[] = [];
  const addItem: ICommandPalette['addItem'] = item => {
    items.push(item);
    return new DisposableDelegate(() => undefined);
  };
  return { items, addItem };
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
    expect(model.provides).toBe(IGpuDask);
  });

  it('load without the optional tokens', async () => {
    await commands.activate(app, gpuDask, null, null, null);
    await panel.activate(app, gpuDask, null, null, null);
    await toolbar.activate(app, gpuDask, null, null, null);
    await statusBar.activate(app, gpuDask, null);
    const ids = Array.from(app.shell.widgets('left'), widget => widget.id);
    expect(ids).toEqual([PANEL_ID]);
  });
});

describe('jupyter-gpudask:panel', () => {
  it('does not connect while the panel is hidden', async () => {
    await panel.activate(app, gpuDask, null, null, null);
    app.shell.collapseLeft();
    expect(FakeSocket.all.filter(socket => !socket.isClosed)).toEqual([]);
  });

  it('shows the panel and connects by its command', async () => {
    await panel.activate(app, gpuDask, null, null, null);
    app.shell.collapseLeft();

    await app.commands.execute(CommandIDs.showPanel);

    const [widget] = app.shell.widgets('left');
    expect(widget.isVisible).toBe(true);
    expect(FakeSocket.last.isClosed).toBe(false);
    app.shell.collapseLeft();
    expect(FakeSocket.last.isClosed).toBe(true);
  });

  it('moves the focus to the panel and back by its command', async () => {
    await panel.activate(app, gpuDask, null, null, null);
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

  it('adds the command to the palette', async () => {
    const palette = newPalette();
    await panel.activate(app, gpuDask, nullTranslator, null, palette);
    expect(palette.items).toEqual([
      { command: CommandIDs.showPanel, category: 'GPU Dask' }
    ]);
    expect(app.commands.label(CommandIDs.showPanel)).toBe(
      'Show GPU Dask Panel'
    );
  });

  it('adds the panel to the layout restorer', async () => {
    const kept: string[] = [];
    const restorer: Pick<ILayoutRestorer, 'add'> = {
      add: (widget, name) => kept.push(`${widget.id} as ${name}`)
    };
    await panel.activate(app, gpuDask, nullTranslator, restorer, null);
    expect(kept).toEqual([`${PANEL_ID} as ${PANEL_ID}`]);
  });
});

describe('jupyter-gpudask:commands', () => {
  const args = { kernelId: 'kernel-1' };

  it('enables the commands that the state of the cluster allows', async () => {
    await commands.activate(app, gpuDask, null, null, null);
    const enabled = (): string[] =>
      Object.entries(CommandIDs)
        .filter(([name]) => !['showPanel', 'reconnect'].includes(name))
        .filter(([, id]) => app.commands.isEnabled(id, args))
        .map(([name]) => name)
        .filter(name => name !== 'restoreDashboard');

    expect(enabled()).toEqual(['start', 'startWithOptions']);
    gpuDask.model.updateCluster(cluster({ status: 'starting' }));
    expect(enabled()).toEqual(['stop']);
    gpuDask.model.updateCluster(cluster());
    expect(enabled()).toEqual([
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
      await commands.activate(app, gpuDask, app.shell, null, null);
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

    it.each<[string, [string, DockLayout.InsertMode, string][]]>([
      ['h(n v(T PD))', []],
      [
        'h(v(T P) n D)',
        [
          ['Task Stream', 'split-left', 'notebook'],
          ['Progress', 'split-bottom', 'Task Stream']
        ]
      ],
      [
        'h(v(h(P n) T) D)',
        [
          ['Task Stream', 'split-bottom', 'notebook'],
          ['Progress', 'split-left', 'notebook']
        ]
      ],
      [
        'h(PnT D)',
        [
          ['Progress', 'tab-before', 'notebook'],
          ['Task Stream', 'tab-after', 'notebook']
        ]
      ],
      ['h(n v(h(T D) P))', [['Dask', 'split-right', 'Task Stream']]]
    ])('opens plots again as they were arranged: %s', async (shown, moves) => {
      const find = (label: string): Widget =>
        [...app.shell.widgets('main')].find(
          ({ title }) => title.label.split(':')[0] === label
        ) as Widget;
      await app.commands.execute(CommandIDs.openPlots, args);
      await app.commands.execute(CommandIDs.openDashboard, args);
      for (const [label, mode, beside] of moves) {
        app.shell.add(find(label), 'main', { mode, ref: find(beside).id });
      }
      expect(areas()).toBe(shown);
      await app.commands.execute(CommandIDs.closePlots);
      expect(areas()).toBe('n');
      await app.commands.execute(CommandIDs.openPlots, args);
      expect(areas()).toBe(shown);
    });

    it('opens tabs in the main area after the panel was moved to the right sidebar', async () => {
      await panel.activate(app, gpuDask, null, null, null);
      await history.activate(app, gpuDask, app.shell, null, null);
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
      expect(palette?.textContent).toBe('LayoutsDefaultWorkersStatus');
      palette?.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' }));
      await rendered();
      expect(shownPlots()).toEqual([]);
    });
  });

  it('has no layouts where there are no tabs', async () => {
    await commands.activate(app, gpuDask, null, null, null);
    gpuDask.model.updateCluster(cluster());
    expect(app.commands.isEnabled(CommandIDs.openLayout, args)).toBe(false);
    expect(app.commands.isEnabled(CommandIDs.openPlots, args)).toBe(true);
  });

  it('lists these plots first where all plots can be searched', async () => {
    plots = {
      'Individual Bandwidth': '/individual-bandwidth',
      'Individual Task Stream': '/individual-task-stream'
    };
    await commands.activate(app, gpuDask, app.shell, null, null);
    gpuDask.model.updateCluster(cluster());
    await app.commands.execute(CommandIDs.choosePlot, args);
    await rendered();
    const palette = document.getElementById('jupyter-gpudask-plots');
    const shown = (): (string | null)[] =>
      Array.from(
        palette?.querySelectorAll(
          '.lm-CommandPalette-header, .lm-CommandPalette-itemLabel'
        ) ?? [],
        node => node.textContent
      );
    expect(shown()).toEqual([
      'Favorites',
      'Task Stream',
      'Layouts',
      'Layout: Default',
      'Layout: Workers',
      'Layout: Status',
      'Plots',
      'Bandwidth'
    ]);
    const escape = new KeyboardEvent('keydown', { key: 'Escape' });
    palette?.dispatchEvent(escape);
    await rendered();
    expect(document.getElementById('jupyter-gpudask-plots')).toBeNull();
  });

  it('disables a command for a cluster that was replaced', async () => {
    await commands.activate(app, gpuDask, null, null, null);
    gpuDask.model.updateCluster(cluster({ since: 3 }));
    const restart = (since: number): boolean =>
      app.commands.isEnabled(CommandIDs.restart, { ...args, since });
    expect([restart(3), restart(2)]).toEqual([true, false]);
  });

  it('opens a dashboard in a new page if there are no tabs', async () => {
    const open = jest.spyOn(window, 'open').mockReturnValue(null);
    await commands.activate(app, gpuDask, null, null, null);
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
    await commands.activate(app, gpuDask, app.shell, null, null);
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
    await statusBar.activate(app, gpuDask, bar);
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
