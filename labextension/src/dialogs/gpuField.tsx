import { TranslationBundle } from '@jupyterlab/translation';
import React, { useId } from 'react';

import { formatBytes, Units } from '../format';
import { IGpu, IProblem } from '../model/api';
import { FieldError, problemOf } from './field';
import { IStartOptions, isAvailable } from './startOptions';

interface IGpuFieldProps {
  options: IStartOptions;
  gpus: IGpu[];
  problem: IProblem | null;
  units: Units;
  trans: TranslationBundle;
  set: (changes: Partial<IStartOptions>) => void;
}

/** A checkbox for each GPU, with the clusters that hold it. */
export function GpuField({
  options,
  gpus,
  problem,
  units,
  trans,
  set
}: IGpuFieldProps): JSX.Element {
  const id = useId();
  const own = problemOf('gpus', problem);
  const select = (uuid: string, isSelected: boolean): void => {
    const others = options.gpus.filter(each => each !== uuid);
    set({
      gpus: isSelected ? [...others, uuid] : others,
      areGpusChosen: true
    });
  };
  return (
    <fieldset
      className="jp-GpuDask-field"
      data-invalid={own !== null}
      aria-describedby={own ? `${id}-problem` : undefined}
    >
      <legend>{trans.__('GPUs')}</legend>
      {gpus.length === 0 && (
        <p className="jp-GpuDask-secondary">
          {trans.__('This machine has no GPU.')}
        </p>
      )}
      <div className="jp-GpuDask-gpuOptions">
        {gpus.map(gpu => (
          <label key={gpu.uuid} className="jp-GpuDask-gpuOption">
            <input
              type="checkbox"
              checked={options.gpus.includes(gpu.uuid)}
              disabled={!isAvailable(gpu, options.share)}
              onChange={event => select(gpu.uuid, event.target.checked)}
            />
            <span>
              {gpu.index} {gpu.name}
            </span>
            <span className="jp-GpuDask-secondary">
              {freeMemory(gpu, units, trans)}
            </span>
            {gpu.holders.length > 0 && (
              <span className="jp-GpuDask-secondary jp-GpuDask-gpuHolders">
                {trans.__(
                  'held by %1',
                  gpu.holders.map(holder => holder.name).join(', ')
                )}
              </span>
            )}
          </label>
        ))}
      </div>
      <div className="jp-GpuDask-gpuFoot">
        {gpus.length > 0 && (
          <label className="jp-GpuDask-gpuOption">
            <input
              type="checkbox"
              checked={options.share}
              onChange={event => set({ share: event.target.checked })}
            />
            <span>{trans.__('Share with other clusters that share GPUs')}</span>
          </label>
        )}
        <div className="jp-GpuDask-problems">
          {own && <FieldError id={`${id}-problem`} problem={own} />}
        </div>
      </div>
    </fieldset>
  );
}

/** The free memory of a GPU. */
function freeMemory(gpu: IGpu, units: Units, trans: TranslationBundle): string {
  const { memory_used: used, memory_total: total } = gpu;
  return used === null || total === null
    ? ''
    : trans.__('%1 free', formatBytes(total - used, units));
}
