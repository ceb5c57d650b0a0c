import {
  ILayoutRestorer,
  JupyterFrontEnd,
  LabShell
} from '@jupyterlab/application';
import { ICommandPalette, IPaletteItem } from '@jupyterlab/apputils';
import { nullTranslator } from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';
import { DisposableDelegate } from '@lumino/disposable';
import { Widget } from '@lumino/widgets';

import plugins, { CommandIDs } from '..';
import { PANEL_ID } from '../panel';

/** The two parts of an application that the plugin touches, both real. */
function startApp(): JupyterFrontEnd & { shell: LabShell } {
  const parts = {
    shell: new LabShell({ waitForRestore: false }),
    commands: new CommandRegistry()
  };
  Widget.attach(parts.shell, document.body);
  return parts as unknown as JupyterFrontEnd & { shell: LabShell };
}

const [plugin] = plugins;
let app: ReturnType<typeof startApp>;

beforeEach(() => {
  app = startApp();
});

afterEach(() => app.shell.dispose());

describe('the plugins', () => {
  it('have unique ids in the namespace of the package', () => {
    const ids = plugins.map(each => each.id);
    expect(new Set(ids).size).toBe(ids.length);
    ids.forEach(id => expect(id).toMatch(/^jupyter-gpudask:[a-z-]+$/));
  });

  it('require no token, so that they load in Notebook 7', () => {
    expect(plugins.flatMap(each => each.requires ?? [])).toEqual([]);
  });
});

describe('jupyter-gpudask:panel', () => {
  it('puts the panel on the left when it gets no optional token', async () => {
    await plugin.activate(app, null, null, null);
    const ids = Array.from(app.shell.widgets('left'), widget => widget.id);
    expect(ids).toEqual([PANEL_ID]);
  });

  it('opens the panel by its command', async () => {
    await plugin.activate(app, null, null, null);
    app.shell.collapseLeft();
    expect(app.shell.leftCollapsed).toBe(true);

    await app.commands.execute(CommandIDs.showPanel);

    expect(app.shell.leftCollapsed).toBe(false);
    const [panel] = app.shell.widgets('left');
    expect(panel.isVisible).toBe(true);
  });

  it('offers the command in the palette', async () => {
    const items: IPaletteItem[] = [];
    const palette: Pick<ICommandPalette, 'addItem'> = {
      addItem: item => {
        items.push(item);
        return new DisposableDelegate(() => undefined);
      }
    };

    await plugin.activate(app, nullTranslator, null, palette);

    expect(items).toEqual([
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

    await plugin.activate(app, nullTranslator, restorer, null);

    expect(kept).toEqual([`${PANEL_ID} as ${PANEL_ID}`]);
  });
});
