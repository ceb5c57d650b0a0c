import { ILayoutRestorer } from '@jupyterlab/application';
import { ICommandPalette, IPaletteItem } from '@jupyterlab/apputils';
import { IStatusBar } from '@jupyterlab/statusbar';
import { framePromise } from '@jupyterlab/testing';
import { nullTranslator } from '@jupyterlab/translation';
import { DisposableDelegate } from '@lumino/disposable';
import { Widget } from '@lumino/widgets';

import { currentGpus } from '../notebook/statusItem';
import { PANEL_ID } from '../panel/panel';
import { IGpuDask } from '../tokens';
import plugins, { CommandIDs } from '..';
import { startApp, TestApp } from './app';
import { cluster, FakeSocket, gpu, settingsOf } from './fakeServer';

const [model, commands, panel, toolbar, status] = plugins;
let app: TestApp;
let gpuDask: IGpuDask;

beforeEach(async () => {
  FakeSocket.all = [];
  app = startApp(settingsOf(() => new Response('{}')));
  gpuDask = (await model.activate(app, null)) as IGpuDask;
});

afterEach(() => {
  app.shell.dispose();
  gpuDask.model.dispose();
});

/** A palette that remembers what it offers. */
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

  it('load where there is none of the optional tokens', async () => {
    await commands.activate(app, gpuDask, null, null, null);
    await panel.activate(app, gpuDask, null, null, null);
    await toolbar.activate(app, gpuDask, null);
    await status.activate(app, gpuDask, null);
    const ids = Array.from(app.shell.widgets('left'), widget => widget.id);
    expect(ids).toEqual([PANEL_ID]);
  });
});

describe('jupyter-gpudask:panel', () => {
  it('asks the server for nothing while the panel is hidden', async () => {
    await panel.activate(app, gpuDask, null, null, null);
    app.shell.collapseLeft();
    expect(FakeSocket.all.filter(socket => !socket.isClosed)).toEqual([]);
  });

  it('opens the panel by its command, and the stream with it', async () => {
    await panel.activate(app, gpuDask, null, null, null);
    app.shell.collapseLeft();

    await app.commands.execute(CommandIDs.showPanel);

    const [widget] = app.shell.widgets('left');
    expect(widget.isVisible).toBe(true);
    expect(FakeSocket.last.isClosed).toBe(false);
    app.shell.collapseLeft();
    expect(FakeSocket.last.isClosed).toBe(true);
  });

  it('takes the focus by its command, and gives it back', async () => {
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

  it('offers the command in the palette', async () => {
    const palette = newPalette();
    await panel.activate(app, gpuDask, nullTranslator, null, palette);
    expect(palette.items).toEqual([
      { command: CommandIDs.showPanel, category: 'GPU Dask' }
    ]);
    expect(app.commands.label(CommandIDs.showPanel)).toBe(
      'Show GPU Dask panel'
    );
  });

  it('asks the restorer to keep its place in the layout', async () => {
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

  it('allows what the state of the cluster allows', async () => {
    await commands.activate(app, gpuDask, null, null, null);
    const allowed = (): string[] =>
      Object.entries(CommandIDs)
        .filter(([name]) => !['showPanel', 'reconnect'].includes(name))
        .filter(([, id]) => app.commands.isEnabled(id, args))
        .map(([name]) => name)
        .filter(name => name !== 'restoreDashboard');

    expect(allowed()).toEqual(['start', 'startWithOptions']);
    gpuDask.model.put(cluster({ status: 'starting' }));
    expect(allowed()).toEqual(['stop']);
    gpuDask.model.put(cluster());
    expect(allowed()).toEqual([
      'scale',
      'stop',
      'restart',
      'showLogs',
      'openDashboard',
      'choosePlot',
      'copyCode'
    ]);
    gpuDask.model.put(cluster({ status: 'failed' }));
    expect(allowed()).toEqual([
      'start',
      'startWithOptions',
      'restart',
      'showLogs'
    ]);
  });

  it('does nothing to a cluster that has taken the place of the one that is meant', async () => {
    await commands.activate(app, gpuDask, null, null, null);
    gpuDask.model.put(cluster({ since: 3 }));
    const restart = (since: number): boolean =>
      app.commands.isEnabled(CommandIDs.restart, { ...args, since });
    expect([restart(3), restart(2)]).toEqual([true, false]);
  });

  it('opens a dashboard in a page of its own where there are no tabs', async () => {
    const open = jest.spyOn(window, 'open').mockReturnValue(null);
    await commands.activate(app, gpuDask, null, null, null);
    gpuDask.model.put(cluster());
    await app.commands.execute(CommandIDs.openDashboard, args);
    expect(open.mock.calls[0][0]).toBe(
      'http://server/user/ada/gpudask/dashboard/kernel-1/status'
    );
    open.mockRestore();
  });

  it('opens one tab for each dashboard in JupyterLab', async () => {
    await commands.activate(app, gpuDask, app.shell, null, null);
    gpuDask.model.put(cluster());
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
  it('is there while the current notebook has GPUs', async () => {
    let item: IStatusBar.IItem | undefined;
    const bar: IStatusBar = {
      registerStatusItem: (_, options) => {
        item = options;
        return new DisposableDelegate(() => undefined);
      }
    };
    await status.activate(app, gpuDask, bar);
    expect(item?.isActive?.()).toBe(false);

    jest.spyOn(gpuDask.current, 'kernelId', 'get').mockReturnValue('kernel-1');
    const looker = gpuDask.model.look();
    FakeSocket.last.send({
      gpus: { gpus: [gpu()], reason: '', fix: '' },
      clusters: [cluster()]
    });
    expect(item?.isActive?.()).toBe(true);

    const { state } = cluster();
    const scaled = cluster({
      gpus: ['GPU-0', 'GPU-1'],
      state: state && { ...state, gpus: ['GPU-1'] }
    });
    gpuDask.model.put(scaled);
    expect(currentGpus(gpuDask)).toEqual([]);
    looker.dispose();
  });
});
