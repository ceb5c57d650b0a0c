import { TranslationBundle } from '@jupyterlab/translation';
import React, { useId } from 'react';

import { formatUsage, Units } from '../format';
import { IGpu, IProblem } from '../model/api';
import { FieldError } from './field';
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
  const hasProblem = problem?.field === 'gpus';
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
      aria-describedby={hasProblem ? `${id}-problem` : undefined}
    >
      <legend>{trans.__('GPUs')}</legend>
      {gpus.length === 0 && (
        <p className="jp-GpuDask-secondary">
          {trans.__('This machine has no GPU.')}
        </p>
      )}
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
            {gpuUsage(gpu, units, trans)}
          </span>
        </label>
      ))}
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
      {hasProblem && <FieldError id={`${id}-problem`} problem={problem} />}
    </fieldset>
  );
}

/** The clusters that hold a GPU, or its used or free memory. */
function gpuUsage(gpu: IGpu, units: Units, trans: TranslationBundle): string {
  if (gpu.holders.length > 0) {
    const names = gpu.holders.map(holder => holder.name).join(', ');
    return trans.__('held by %1', names);
  }
  if (gpu.memory_used === null || gpu.memory_total === null) {
    return trans.__('free');
  }
  const { memory_used: used, memory_total: total } = gpu;
  return gpu.users.length > 0 || gpu.hidden_use
    ? trans.__('%1 in use', formatUsage(used, total, trans, units))
    : trans.__('%1 free', formatUsage(total - used, total, trans, units));
}
