import { CommandRegistry } from '@lumino/commands';
import { Menu } from '@lumino/widgets';

import { IPlot } from '../model/rest';

/** A menu of plots, under the button that was clicked. */
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
  const { left, top } = placeOf(document.activeElement);
  menu.aboutToClose.connect(() => requestAnimationFrame(() => menu.dispose()));
  menu.open(left, top);
}

/** Below a button, or in the corner of the page where it was a menu or the palette. */
function placeOf(focused: Element | null): { left: number; top: number } {
  if (focused instanceof HTMLButtonElement) {
    const { left, bottom } = focused.getBoundingClientRect();
    return { left, top: bottom };
  }
  return { left: 0, top: 0 };
}
