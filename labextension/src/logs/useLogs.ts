/**
 * The logs of a cluster, loaded again while they are followed.
 */
import { useEffect, useState } from 'react';

import { useGpuDask } from '../components/context';
import { errorMessage } from '../errors';
import { ICluster } from '../model/api';
import { RestClient } from '../model/rest';

/** Milliseconds between two requests. */
const INTERVAL = 2000;

/** The text of each log by the name of the worker; `supervisor` is the scheduler's. */
export interface ILogs {
  [worker: string]: string;
}

/**
 * @param kernelId - the kernel of the cluster
 * @param rest - the client of the server
 * @param isFollowed - whether the logs are loaded again
 * @param isVisible - whether they are visible; hidden ones are not loaded
 * @returns the last known logs, null before they are loaded; and why they are not up to date
 */
export function useLogs(
  kernelId: string,
  rest: RestClient,
  isFollowed: boolean,
  isVisible: () => boolean
): { logs: ILogs | null; problem: string } {
  const { model, trans } = useGpuDask();
  const [logs, setLogs] = useState<ILogs | null>(null);
  const [problem, setProblem] = useState('');

  useEffect(() => {
    let isOver = false;
    let isLoading = false;
    const load = async (): Promise<void> => {
      const cluster = model.clusters.get(kernelId);
      if (isLoading || !cluster) {
        setProblem(cluster ? '' : trans.__('The cluster is closed.'));
        return;
      }
      isLoading = true;
      try {
        const loaded = await read(cluster);
        if (!isOver) {
          setLogs(loaded);
          setProblem('');
        }
      } catch (error) {
        if (!isOver) {
          setProblem(errorMessage(error, trans));
        }
      } finally {
        isLoading = false;
      }
    };
    const read = async (cluster: ICluster): Promise<ILogs> =>
      cluster.status === 'ready'
        ? rest.logs(kernelId)
        : { supervisor: cluster.log };
    void load();
    if (!isFollowed) {
      return () => void (isOver = true);
    }
    const timer = setInterval(() => isVisible() && void load(), INTERVAL);
    return () => {
      isOver = true;
      clearInterval(timer);
    };
  }, [kernelId, isFollowed]);

  return { logs, problem };
}
