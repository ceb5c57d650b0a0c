/**
 * What every view needs.
 */
import { TranslationBundle } from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';
import { createContext, useContext } from 'react';

import { CurrentKernel } from '../notebook/currentKernel';
import { GpuDaskModel } from '../model/model';

export interface IGpuDask {
  model: GpuDaskModel;
  current: CurrentKernel;
  /** All that a view does is a command. */
  commands: CommandRegistry;
  trans: TranslationBundle;
}

export const GpuDaskContext = createContext<IGpuDask | null>(null);

export function useGpuDask(): IGpuDask {
  const context = useContext(GpuDaskContext);
  if (!context) {
    throw new Error('A view outside of a LiveWidget');
  }
  return context;
}
