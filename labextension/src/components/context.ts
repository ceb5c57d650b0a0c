/**
 * The React context of all views.
 */
import { createContext, useContext } from 'react';

import { IGpuDask } from '../tokens';

export const GpuDaskContext = createContext<IGpuDask | null>(null);

/** The service that a `LiveWidget` provides to its views. */
export function useGpuDask(): IGpuDask {
  const context = useContext(GpuDaskContext);
  if (!context) {
    throw new Error('useGpuDask must be used inside a LiveWidget');
  }
  return context;
}
