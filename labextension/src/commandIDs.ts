/** The command ids; commands of clusters take `kernelId`, by default that of the current notebook. */
export namespace CommandIDs {
  /** Show the panel in the left sidebar. */
  export const showPanel = 'gpudask:show-panel';
  /** Open the tab with the metrics of the last minutes. */
  export const showHistory = 'gpudask:show-history';
  /** Start a cluster with the default options. */
  export const start = 'gpudask:start';
  /** Start a cluster again whose GPUs are reserved by others, on those that are free. */
  export const startOnFree = 'gpudask:start-on-free-gpus';
  /** Start a cluster again with other options: sharing its GPUs, in line for them, or on the CPU. */
  export const startSharing = 'gpudask:start-sharing';
  export const startWaiting = 'gpudask:start-waiting';
  export const startOnCpu = 'gpudask:start-on-cpu';
  /** Open the dialog that starts a cluster with options. */
  export const startWithOptions = 'gpudask:start-with-options';
  /** Open the dialog that starts a cluster that belongs to no kernel. */
  export const startShared = 'gpudask:start-shared';
  /** Connect a notebook to a shared cluster, or disconnect it; takes the id of the cluster, `shared`. */
  export const useShared = 'gpudask:use-shared';
  /** Open the dialog that changes the number of workers. */
  export const scale = 'gpudask:scale';
  export const stop = 'gpudask:stop';
  export const restart = 'gpudask:restart';
  /** Release the results that the kernel holds on the workers. */
  export const release = 'gpudask:release-results';
  /** Keep the GPUs of an idle cluster, which somebody waits for. */
  export const keep = 'gpudask:keep-gpus';
  /** Open the tab with the last lines of the logs. */
  export const showLogs = 'gpudask:show-logs';
  /** Open the Dask dashboard. */
  export const openDashboard = 'gpudask:open-dashboard';
  /** Open the plots of the setting `defaultLayout` beside the notebook. */
  export const openPlots = 'gpudask:open-plots';
  /** Open one of the layouts of plots of the settings; also takes its name, `layout`. */
  export const openLayout = 'gpudask:open-layout';
  /** Search the individual plots of the Dask dashboard, and open one. */
  export const choosePlot = 'gpudask:choose-plot';
  /** Close the tabs with pages of the Dask dashboard, of all clusters. */
  export const closePlots = 'gpudask:close-plots';
  /** Reopen a dashboard of the saved layout; also takes `name`, `path` and `title`. */
  export const restoreDashboard = 'gpudask:restore-dashboard';
  /** Copy the code that gets the Dask client. */
  export const copyCode = 'gpudask:copy-code';
  /** Insert the code that gets the Dask client in a new cell. */
  export const insertCode = 'gpudask:insert-code';
  /** Show a cell of a notebook; takes its id, `cell`, and the `path` of the notebook. */
  export const showCell = 'gpudask:show-cell';
  /** Run every cell that uses Dask on the GPUs, or no longer. */
  export const runOnGpus = 'gpudask:run-on-gpus';
  /** Insert an example into the notebook, and run it on the GPUs. */
  export const tryExample = 'gpudask:try-example';
  /** Run pandas and scikit-learn on a GPU in a kernel. */
  export const accelerate = 'gpudask:accelerate';
  /** Reconnect to the server now. */
  export const reconnect = 'gpudask:reconnect';
}
