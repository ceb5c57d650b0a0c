/**
 * Menus of the commands of a cluster.
 */
import { MenuSvg } from '@jupyterlab/ui-components';
import { CommandRegistry } from '@lumino/commands';
import { ReadonlyJSONObject } from '@lumino/coreutils';

/** The groups of commands in a menu. */
export type MenuGroups = readonly (readonly string[])[];

/**
 * Open a menu below an element.
 *
 * @param commands - the application's commands
 * @param groups - the commands, with a separator between two groups; those that are disabled are left out
 * @param args - the arguments of all commands
 * @param anchor - the element
 */
export function openClusterMenu(
  commands: CommandRegistry,
  groups: MenuGroups,
  args: ReadonlyJSONObject,
  anchor: Element | null
): void {
  const menu = new MenuSvg({ commands });
  menu.addClass('jp-GpuDask-menu');
  for (const group of groups) {
    const enabled = group.filter(
      command =>
        commands.hasCommand(command) && commands.isEnabled(command, args)
    );
    if (enabled.length > 0 && menu.items.length > 0) {
      menu.addItem({ type: 'separator' });
    }
    enabled.forEach(command => menu.addItem({ command, args }));
  }
  const { left = 0, bottom = 0 } = anchor?.getBoundingClientRect() ?? {};
  menu.aboutToClose.connect(() => requestAnimationFrame(() => menu.dispose()));
  menu.open(left, bottom);
}
