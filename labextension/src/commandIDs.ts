/** The commands this extension adds; those of a cluster take `kernelId`, by default the current one. */
export namespace CommandIDs {
  /** Open the left sidebar on the GPU Dask panel. */
  export const showPanel = 'gpudask:show-panel';

  /** Start a cluster with the options by default. */
  export const start = 'gpudask:start';

  /** Start a cluster with the options of a dialog. */
  export const startWithOptions = 'gpudask:start-with-options';

  /** Ask how many workers there shall be. */
  export const scale = 'gpudask:scale';

  export const stop = 'gpudask:stop';

  export const restart = 'gpudask:restart';

  /** Show the last lines of the logs. */
  export const showLogs = 'gpudask:show-logs';

  /** Open Dask's dashboard. */
  export const openDashboard = 'gpudask:open-dashboard';

  /** Open a dashboard that was open before; takes `name` too. */
  export const restoreDashboard = 'gpudask:restore-dashboard';

  /** Copy the lines that get the Dask client. */
  export const copyCode = 'gpudask:copy-code';

  /** Put these lines into a new cell of the notebook. */
  export const insertCode = 'gpudask:insert-code';

  /** Try to reach the server again. */
  export const reconnect = 'gpudask:reconnect';
}
