/**
 * A palette with the individual plots of a dashboard.
 */
import { ModalCommandPalette } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import { CommandPaletteSvg } from '@jupyterlab/ui-components';
import { CommandRegistry } from '@lumino/commands';
import { Message } from '@lumino/messaging';
import { CommandPalette, Widget } from '@lumino/widgets';

import { IPlot } from '../model/rest';

/**
 * Open a palette in which a plot can be searched.
 *
 * @param plots - all plots
 * @param favorites - those that are listed first
 * @param open - opens a plot
 * @param trans - the translations
 * @returns the palette, which is disposed when it is closed
 */
export function openPlotPalette(
  plots: IPlot[],
  favorites: IPlot[],
  open: (plot: IPlot) => void,
  trans: TranslationBundle
): Widget {
  const commands = new CommandRegistry();
  const palette = new CommandPalette({
    commands,
    renderer: CommandPaletteSvg.defaultRenderer
  });
  palette.inputNode.placeholder = trans.__('Search the plots');
  palette.inputNode.setAttribute('aria-label', trans.__('Search the plots'));
  plots.forEach(plot =>
    commands.addCommand(plot.path, {
      label: plot.title,
      describedBy: {
        args: { type: 'object', properties: {}, additionalProperties: false }
      },
      execute: () => open(plot)
    })
  );
  const add = (category: string, plots: IPlot[]): void =>
    plots.forEach((plot, rank) =>
      palette.addItem({ command: plot.path, category, rank })
    );
  add(trans.__('Favorites'), favorites);
  add(
    trans.__('Plots'),
    plots.filter(plot => !favorites.includes(plot))
  );
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
    const focused = this._focused;
    requestAnimationFrame(() => {
      this.dispose();
      if (
        document.activeElement === document.body &&
        focused instanceof HTMLElement
      ) {
        focused.focus();
      }
    });
  }

  private readonly _focused = document.activeElement;
}
