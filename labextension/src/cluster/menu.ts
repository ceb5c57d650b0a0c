/**
 * Menus of the commands of a cluster.
 */
import { MenuSvg } from '@jupyterlab/ui-components';
import { CommandRegistry } from '@lumino/commands';
import { ReadonlyJSONObject } from '@lumino/coreutils';
import { Menu } from '@lumino/widgets';

import { rememberFocus } from '../components/focus';
import { ICluster } from '../model/api';
import { limitOf } from './offered';

/** The groups of commands in a menu, some with arguments of their own. */
export type MenuGroups = readonly (readonly (
  string | { command: string; args: ReadonlyJSONObject }
)[])[];

/** Shows why an item is not possible with a cluster. */
class Renderer extends MenuSvg.Renderer {
  constructor(private readonly _cluster: ICluster | undefined) {
    super();
  }

  override createItemARIA(
    data: Menu.IRenderData
  ): ReturnType<MenuSvg.Renderer['createItemARIA']> {
    const title = limitOf(data.item.command, this._cluster);
    // The description of the item, for assistive technology, too.
    const attributes = { ...super.createItemARIA(data), title };
    return attributes;
  }
}

/**
 * Open a menu below an element; when it closes, the focus moves back to where it was.
 *
 * @param commands - the application's commands
 * @param groups - the commands, with a separator between two groups; those that are disabled are left out, unless the
 *   engine of the cluster gives a reason
 * @param cluster - the cluster; `undefined` if there is none
 * @param shared - the arguments of all commands
 * @param anchor - the element
 */
export function openClusterMenu(
  commands: CommandRegistry,
  groups: MenuGroups,
  cluster: ICluster | undefined,
  shared: ReadonlyJSONObject,
  anchor: Element | null
): void {
  const menu = new MenuSvg({ commands, renderer: new Renderer(cluster) });
  menu.addClass('jp-GpuDask-menu');
  for (const group of groups) {
    const items = group.map(each =>
      typeof each === 'string'
        ? { command: each, args: shared }
        : { command: each.command, args: { ...shared, ...each.args } }
    );
    const shown = items.filter(
      ({ command, args }) =>
        commands.hasCommand(command) &&
        commands.isVisible(command, args) &&
        (commands.isEnabled(command, args) || limitOf(command, cluster))
    );
    if (shown.length > 0 && menu.items.length > 0) {
      menu.addItem({ type: 'separator' });
    }
    shown.forEach(item => menu.addItem(item));
  }
  if (menu.items.length === 0) {
    menu.dispose();
    return;
  }
  const { left = 0, bottom = 0 } = anchor?.getBoundingClientRect() ?? {};
  const giveFocusBack = rememberFocus();
  menu.aboutToClose.connect(() =>
    requestAnimationFrame(() => {
      menu.dispose();
      giveFocusBack();
    })
  );
  menu.open(left, bottom);
}
