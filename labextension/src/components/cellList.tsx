import React from 'react';

import { CommandIDs } from '../commandIDs';
import { formatBytes, formatDuration } from '../format';
import { ICellBand } from '../model/api';
import { timesIn } from '../times';
import { IGpuDask } from '../tokens';
import { ClusterBadge, ShortName } from './clusterName';
import { useGpuDask } from './liveWidget';

interface ICellListProps {
  cells: ICellBand[];
  label: string;
  /** Whether the cells are of several notebooks and times. */
  areMixed?: boolean;
}

/** Cells with their time, peak and what ran on the CPU; the number leads to the cell. */
export function CellList({
  cells,
  label,
  areMixed = false
}: ICellListProps): JSX.Element {
  const gpuDask = useGpuDask();
  const { model, trans, language } = gpuDask;
  return (
    <ul className="jp-GpuDask-cells" aria-label={label}>
      {cells.map(cell => {
        const fallbacks = cell.fallbacks.join(', ');
        const name = cell.notebook.split('/').at(-1) ?? '';
        return (
          <li
            key={cell.kernel_id + cell.began}
            data-running={cell.seconds === null}
          >
            <button
              type="button"
              className="jp-GpuDask-link"
              title={trans.__('Show the cell')}
              aria-label={trans.__('Show cell %1 of %2', cell.number, name)}
              onClick={() => showCell(cell, gpuDask)}
            >
              {`[${cell.number}]`}
            </button>
            {areMixed && (
              <>
                <ClusterBadge kernelId={cell.kernel_id} />
                <ShortName name={name} />
                <span className="jp-GpuDask-secondary">
                  {timesIn(language).time(cell.began)}
                </span>
              </>
            )}
            <span>
              {cell.seconds === null
                ? trans.__('running')
                : cell.failed
                  ? cell.interrupted
                    ? trans.__('interrupted after %1', secondsText(cell, trans))
                    : trans.__('failed after %1', secondsText(cell, trans))
                  : secondsText(cell, trans)}
            </span>
            {cell.peak !== null && (
              <span className="jp-GpuDask-secondary">
                {trans.__(
                  'peak %1',
                  formatBytes(cell.peak, model.settings.value.units)
                )}
              </span>
            )}
            {fallbacks && (
              <span className="jp-GpuDask-onCpu" title={fallbacks}>
                {trans.__('on the CPU: %1', fallbacks)}
              </span>
            )}
          </li>
        );
      })}
    </ul>
  );
}

function secondsText({ seconds }: ICellBand, trans: IGpuDask['trans']): string {
  return seconds !== null && seconds < 10
    ? trans.__('%1 s', seconds.toFixed(1))
    : formatDuration(seconds ?? 0, trans);
}

/** Show a cell in its notebook. */
export function showCell(
  { id, kernel_id: kernelId, notebook }: ICellBand,
  { commands }: Pick<IGpuDask, 'commands'>
): void {
  const args = { cell: id, kernelId, path: notebook };
  void commands.execute(CommandIDs.showCell, args);
}
