/**
 * A palette with the individual plots of a dashboard, and with layouts of them.
 */
import { ModalCommandPalette } from '@jupyterlab/apputils';
import { CommandPaletteSvg } from '@jupyterlab/ui-components';
import { CommandRegistry } from '@lumino/commands';
import { Message } from '@lumino/messaging';
import { CommandPalette, Widget } from '@lumino/widgets';

import { rememberFocus } from '../components/focus';

export interface IPaletteEntry {
  label: string;
  open: () => unknown;
}

/** Entries with a common header. */
export interface IPaletteGroup {
  /** The header; groups are sorted by it. */
  category: string;
  entries: IPaletteEntry[];
}

/**
 * Open a palette in which a plot or a layout can be searched.
 *
 * @param label - what is searched
 * @param groups - the entries
 * @returns the palette, which is disposed when it is closed
 */
export function openPlotPalette(
  label: string,
  groups: IPaletteGroup[]
): Widget {
  const commands = new CommandRegistry();
  const palette = new CommandPalette({
    commands,
    renderer: CommandPaletteSvg.defaultRenderer
  });
  palette.inputNode.placeholder = label;
  palette.inputNode.setAttribute('aria-label', label);
  for (const { category, entries } of groups) {
    entries.forEach(({ label, open }, rank) => {
      const command = `${category}-${rank}`;
      commands.addCommand(command, {
        label,
        describedBy: {
          args: { type: 'object', properties: {}, additionalProperties: false }
        },
        execute: open
      });
      palette.addItem({ command, category, rank });
    });
  }
  const modal = new DisposedPalette({ commandPalette: palette });
  modal.id = 'jupyter-gpudask-plots';
  modal.attach();
  modal.activate();
  return modal;
}

/** A palette that is disposed when it is closed; the focus moves back to where it was. */
class DisposedPalette extends ModalCommandPalette {
  protected override onAfterHide(message: Message): void {
    super.onAfterHide(message);
    requestAnimationFrame(() => {
      this.dispose();
      this._giveFocusBack();
    });
  }

  private readonly _giveFocusBack = rememberFocus();
}
