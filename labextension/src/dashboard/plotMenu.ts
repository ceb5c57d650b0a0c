import { CommandRegistry } from '@lumino/commands';
import { Menu } from '@lumino/widgets';

import { IPlot } from '../model/rest';

/** Open a menu of plots below the focused button. */
export function openPlotMenu(
  plots: IPlot[],
  open: (plot: IPlot) => void
): void {
  const commands = new CommandRegistry();
  const menu = new Menu({ commands });
  plots.forEach(plot => {
    commands.addCommand(plot.path, {
      label: plot.title,
      describedBy: {
        args: { type: 'object', properties: {}, additionalProperties: false }
      },
      execute: () => open(plot)
    });
    menu.addItem({ command: plot.path });
  });
  const { left, top } = menuPosition(document.activeElement);
  menu.aboutToClose.connect(() => requestAnimationFrame(() => menu.dispose()));
  menu.open(left, top);
}

/** Below a button; in the corner of the page if the command was run from a menu or the palette. */
function menuPosition(focused: Element | null): { left: number; top: number } {
  if (focused instanceof HTMLButtonElement) {
    const { left, bottom } = focused.getBoundingClientRect();
    return { left, top: bottom };
  }
  return { left: 0, top: 0 };
}
