import { Signal } from '@lumino/signaling';

import { CommandIDs } from '../commandIDs';
import { ICluster } from '../model/api';
import { cluster, details, GIB, gpu, rendered } from './fakeServer';
import { gpuList, ShownPanel } from './shownPanel';

const NO_WORK = { tasks: 0, blocks: 0, done: 0, seconds_left: null };

let shown: ShownPanel;

beforeEach(() => (shown = new ShownPanel()));
afterEach(() => shown.dispose());

/** The entries of the menu that is open. */
const menuLabels = (): (string | null)[] =>
  Array.from(
    document.querySelectorAll('.jp-GpuDask-menu .lm-Menu-itemLabel'),
    node => node.textContent
  ).filter(Boolean);

describe('the section of clusters', () => {
  const buttons = '.jp-GpuDask-section .jp-GpuDask-button';

  /** The names and the descriptions of the buttons of a cluster with this value of `aria-disabled`. */
  function buttonsOf(disabled: string | null): (string | null)[][] {
    return [...document.querySelectorAll('.jp-GpuDask-actions button')]
      .filter(each => each.getAttribute('aria-disabled') === disabled)
      .map(each =>
        ['aria-label', 'title'].map(name => each.getAttribute(name))
      );
  }

  function click(name: string): void {
    document
      .querySelector<HTMLButtonElement>(`button[aria-label="${name}"]`)
      ?.click();
  }

  it('shows that no notebook is open', async () => {
    shown.show();
    await shown.receive({ gpus: gpuList() });
    expect(shown.texts('.jp-GpuDask-noticeTitle')).toEqual([
      'No notebook is open.'
    ]);
  });

  it('shows in how many workers a query of Polars runs', async () => {
    const { state } = cluster();
    const [worker] = state?.workers ?? [];
    const idle = { ...worker, executing: 0, waiting: 0 };
    const workers = [{ ...idle, polars: true }, idle];
    shown.show();
    await shown.receive({
      gpus: gpuList(),
      clusters: [
        cluster({
          busy: true,
          state: state && { ...state, workers, tasks_unfinished: 0 }
        })
      ]
    });
    expect(document.body.textContent).toMatch(
      /Polars\squery,\s1\sof\s2\sGPUs\sbusy/
    );
  });

  it('has buttons to start a cluster for the current notebook', async () => {
    shown.show();
    shown.openNotebook('kernel-9');
    await shown.receive({ gpus: gpuList() });
    expect(shown.texts('.jp-GpuDask-noticeTitle')).toEqual([
      'mine.ipynb has no cluster.'
    ]);
    expect(shown.names(buttons)).toEqual([
      'Start: mine.ipynb',
      'Options…: mine.ipynb'
    ]);
  });

  it('shows the folder of a notebook whose name another notebook with a cluster has', async () => {
    shown.show();
    shown.openNotebook('kernel-9');
    const path = jest.spyOn(shown.gpuDask.current, 'path', 'get');
    path.mockReturnValue('b/mine.ipynb');
    const other = cluster({ name: 'mine.ipynb', notebooks: ['a/mine.ipynb'] });
    await shown.receive({ gpus: gpuList(), clusters: [other] });
    expect(shown.texts('.jp-GpuDask-noticeTitle')).toEqual([
      'b/mine.ipynb has no cluster.'
    ]);
  });

  it('does not suggest to start a cluster here if the settings do not offer it', async () => {
    shown.show();
    shown.openNotebook('kernel-9');
    shown.gpuDask.model.settings.follow({
      composite: { allowStart: false },
      changed: new Signal<unknown, void>({})
    });
    await shown.receive({ gpus: gpuList() });
    expect(shown.names(buttons)).toEqual([]);
    expect(shown.texts('.jp-GpuDask-notice p')).toEqual([
      'mine.ipynb has no cluster.',
      'Run a %%gpudask cell in the notebook.'
    ]);
  });

  it('asks for a kernel if the notebook has none', async () => {
    shown.show();
    shown.openNotebook(null);
    await shown.receive({ gpus: gpuList() });
    expect(shown.texts('.jp-GpuDask-noticeTitle')).toEqual([
      'mine.ipynb has no kernel.'
    ]);
  });

  it('says that a kernel is starting', async () => {
    shown.show();
    shown.openNotebook(null, 'initializing');
    await shown.receive({ gpus: gpuList() });
    expect(shown.texts('.jp-GpuDask-noticeTitle')).toEqual([
      'The kernel of mine.ipynb is starting…'
    ]);
  });

  it('disables what only the owner of a cluster does, and describes why', async () => {
    shown.show();
    const limits = {
      stop: 'It is not stopped from here.',
      restart: 'It cannot be restarted from here.',
      scale: 'Its workers are started there.',
      dashboard: 'It has no dashboard.'
    };
    const joined = cluster({
      limits,
      joined: 'tcp://10.0.0.1:8786',
      gpus: [],
      dashboard: null,
      pid: null,
      notes: ['3 unfinished tasks of others.']
    });
    await shown.receive({ gpus: gpuList(), clusters: [joined] });
    expect(shown.texts('.jp-GpuDask-cardHeader')[0]).toBe(
      'analysistcp://10.0.0.1:8786'
    );
    expect(buttonsOf('true')).toEqual([
      ['Plots: analysis.ipynb', limits.dashboard],
      ['Choose a plot: analysis.ipynb', limits.dashboard],
      ['Stop: analysis.ipynb', limits.stop]
    ]);
    expect(buttonsOf(null)).toEqual([
      ['Logs: analysis.ipynb', 'Logs'],
      ['More actions: analysis.ipynb', 'More actions']
    ]);
    const args = { kernelId: 'kernel-1' };
    const { commands } = shown.gpuDask;
    const execute = jest.spyOn(commands, 'execute');
    click('Stop: analysis.ipynb');
    expect(execute).not.toHaveBeenCalled();
    for (const id of [CommandIDs.stop, CommandIDs.restart, CommandIDs.scale]) {
      expect(commands.isEnabled(id, args)).toBe(false);
    }
    click('More actions: analysis.ipynb');
    await rendered();
    const items = [
      ...document.querySelectorAll('.lm-Menu-item[aria-disabled=true]')
    ].map(item => [item.textContent, item.getAttribute('title')]);
    expect(items).toEqual([
      ['Open Dask Dashboard', limits.dashboard],
      ['Scale Cluster…', limits.scale],
      ['Restart Cluster', limits.restart]
    ]);
    document.querySelector('.jp-GpuDask-menu')?.remove();
    const { openDashboard, openPlots, choosePlot } = CommandIDs;
    for (const id of [openDashboard, openPlots, choosePlot]) {
      expect(commands.isEnabled(id, args)).toBe(false);
    }
    // Its dashboard is offered if it has one.
    const dashboard = 'gpudask/dashboard/kernel-1/';
    await shown.receive({
      clusters: [{ ...joined, dashboard, limits: { stop: limits.stop } }]
    });
    expect(buttonsOf('true')).toEqual([['Stop: analysis.ipynb', limits.stop]]);
    for (const id of [openDashboard, openPlots, choosePlot]) {
      expect(commands.isEnabled(id, args)).toBe(true);
    }
  });

  it('has a button to keep the GPUs of an idle cluster that somebody waits for', async () => {
    shown.show();
    const wanted = { wanted_by: 'user anna since 14:05', given_over_at: 1000 };
    const { state } = cluster();
    const idle = {
      ...wanted,
      state: state && {
        ...state,
        tasks_unfinished: 0,
        workers: [],
        result_bytes: 3 * GIB
      }
    };
    await shown.receive({ gpus: gpuList(), clusters: [cluster(idle)] });
    expect(shown.texts('[role=alert] span')[0]).toMatch(
      /^Its GPUs are wanted by user anna since 14:05. .* Its workers hold 3.0 GiB of results, which will be lost.$/
    );
    expect(shown.names('[role=alert] button')).toEqual([
      'Keep: analysis.ipynb'
    ]);
    await shown.receive({ gpus: gpuList(), clusters: [cluster()] });
    expect(shown.texts('[role=alert]')).toEqual([]);
  });

  it('has names that show the notebook', async () => {
    shown.show();
    const show = jest.fn();
    const { commands } = shown.gpuDask;
    commands.addCommand(CommandIDs.showCell, {
      describedBy: { args: null },
      execute: show
    });
    const path = 'work/analysis.ipynb';
    const notebooks = [path];
    await shown.receive({
      gpus: gpuList(),
      clusters: [cluster({ notebooks })]
    });
    shown.panel.node
      .querySelector<HTMLElement>('button.jp-GpuDask-name')
      ?.click();
    expect(show).toHaveBeenCalledWith({ kernelId: 'kernel-1', path });
    // A console has no file.
    const tab = { name: 'Console 1', notebooks: ['work/Console 1'] };
    await shown.receive({ clusters: [cluster(tab)] });
    expect(shown.texts('span.jp-GpuDask-name')).toEqual(['Console 1']);
  });

  it('show the running cell and the last five, with what ran on the CPU, which lead to the cells', async () => {
    shown.show();
    const show = jest.fn();
    const { commands } = shown.gpuDask;
    commands.addCommand(CommandIDs.showCell, {
      describedBy: { args: null },
      execute: show
    });
    const ended = [1, 2, 3, 4, 5].map(number => ({
      id: `cell-${number}`,
      number,
      began: number,
      seconds: number,
      peak: number * 2 ** 30,
      fallbacks: number === 5 ? ['median (line 3), 10 blocks'] : [],
      fallback_blocks: 0,
      failed: number === 4 || number === 2,
      interrupted: number === 2
    }));
    const running = { ...ended[0], number: 6, began: 6, seconds: null };
    const cells = [...ended, running];
    await shown.receive({
      gpus: gpuList(),
      clusters: [cluster({ cells, busy: true })]
    });
    expect(shown.texts('.jp-GpuDask-cells li')).toEqual([
      '[6]runningpeak 1.0 GiB',
      '[5]5.0 speak 5.0 GiBon the CPU: median (line 3), 10 blocks',
      '[4]failed after 4.0 speak 4.0 GiB',
      '[3]3.0 speak 3.0 GiB',
      '[2]interrupted after 2.0 speak 2.0 GiB',
      '[1]1.0 speak 1.0 GiB'
    ]);
    shown.panel.node
      .querySelector<HTMLElement>('.jp-GpuDask-lastCells button')
      ?.click();
    expect(show).toHaveBeenCalledWith(
      expect.objectContaining({ cell: 'cell-5', kernelId: 'kernel-1' })
    );
  });

  it('groups workers by host if there are several', async () => {
    shown.show();
    const { state } = cluster();
    const [worker] = state?.workers ?? [];
    const workers = ['10.0.0.2', '10.0.0.2', '10.0.0.3'].map((host, index) => ({
      ...worker,
      name: `${index}`,
      gpu_index: index,
      gpu_uuid: `GPU-elsewhere-${index}`,
      utilization: 40 + index,
      device_memory_used: 30 * 2 ** 30,
      device_memory_total: 80 * 2 ** 30,
      host
    }));
    await shown.receive({
      gpus: gpuList(),
      clusters: [cluster({ state: state && { ...state, workers } })]
    });
    expect(
      shown.texts('.jp-GpuDask-workerHost, .jp-GpuDask-workerName')
    ).toEqual(['10.0.0.2', 'GPU 0', 'GPU 1', '10.0.0.3', 'GPU 2']);
    expect(shown.texts('.jp-GpuDask-workerLoad').at(-1)).toContain(
      '42 %, 30 of 80 GiB'
    );
  });

  it('numbers workers that share a GPU', async () => {
    shown.show();
    const { state } = cluster();
    const [worker] = state?.workers ?? [];
    const workers = ['0', '1'].map(name => ({ ...worker, name, gpu_index: 1 }));
    await shown.receive({
      gpus: gpuList(),
      clusters: [cluster({ state: state && { ...state, workers } })]
    });
    expect(shown.texts('.jp-GpuDask-workerName')).toEqual([
      'GPU 1, worker 1',
      'GPU 1, worker 2'
    ]);
  });

  it('does not offer free GPUs that have been reserved since the start failed', async () => {
    shown.show();
    const holders = [{ name: 'b.ipynb', kernel_id: 'kernel-2', share: false }];
    const error = details({
      reason: 'GPU 0 is reserved.',
      field: 'gpus',
      actions: ['start-on-free', 'wait', 'use-cpu']
    });
    await shown.receive({
      gpus: gpuList({ gpus: [gpu({ holders })] }),
      clusters: [cluster({ status: 'failed', error, workers_total: 0 })]
    });
    expect(shown.names(buttons)).toEqual(
      ['Wait for GPUs', 'Start on the CPU', 'Change options…'].map(
        name => `${name}: analysis.ipynb`
      )
    );
  });

  it('separates the thousands of the numbers of tasks', async () => {
    shown.show();
    const { state } = cluster();
    const [worker] = state?.workers ?? [];
    const workers = [{ ...worker, executing: 1000, waiting: 2048 }];
    const more = { workers, tasks_unfinished: 5093, work: NO_WORK };
    await shown.receive({
      gpus: gpuList(),
      clusters: [cluster({ state: state && { ...state, ...more } })]
    });
    expect(shown.texts('.jp-GpuDask-stateLine')[0]).toContain(
      '1,000 running, 4,093 waiting'
    );
    expect(shown.texts('.jp-GpuDask-workerLoad')[0]).toContain(
      '1,000 running, 2,048 assigned'
    );
  });

  it('shows what a start waits for, and hosts that are lost', async () => {
    shown.show();
    const notes = [
      'Job 12 is pending in SLURM: Resources, position 3 (worker 0).'
    ];
    await shown.receive({
      gpus: gpuList(),
      clusters: [cluster({ status: 'starting', notes })]
    });
    expect(shown.texts('.jp-GpuDask-notes li')).toEqual(notes);
    await shown.receive({ clusters: [cluster()] });
    expect(shown.texts('.jp-GpuDask-notes')).toEqual([]);
  });

  it('shows the tasks of a cluster and its workers', async () => {
    shown.show();
    await shown.receive({ gpus: gpuList(), clusters: [cluster()] });
    expect(shown.texts('.jp-GpuDask-stateLine')).toEqual([
      'ready23 of 144 blocks, about 50 s left, 3.0 GiB spilled'
    ]);
    expect(shown.texts('.jp-GpuDask-workers li')).toEqual([
      'GPU 04 running, 1 assignedpool 80 %, 3.0 GiB spilled'
    ]);
    expect(shown.names(buttons)).toEqual([
      'Plots: analysis.ipynb',
      'Choose a plot: analysis.ipynb',
      'Logs: analysis.ipynb',
      'Stop: analysis.ipynb',
      'More actions: analysis.ipynb'
    ]);
  });

  it('shows the size of the results, and how many GPUs are used', async () => {
    shown.show();
    const { state } = cluster();
    const scaled = cluster({
      gpus: ['GPU-0', 'GPU-1'],
      state: state && {
        ...state,
        gpus: ['GPU-0'],
        result_bytes: 3 * GIB,
        adaptive_range: [1, 2]
      }
    });
    const gpus = [gpu(), gpu({ index: 1, uuid: 'GPU-1' })];
    await shown.receive({ gpus: gpuList({ gpus }), clusters: [scaled] });
    expect(shown.texts('.jp-GpuDask-stateLine')).toEqual([
      'ready23 of 144 blocks, about 50 s left, 1 to 2 workers, as needed, 3.0 GiB spilled, holds 3.0 GiB of results'
    ]);
    expect(shown.texts('.jp-GpuDask-cards .jp-GpuDask-details').at(-1)).toBe(
      '1 of 2 × H200'
    );
  });

  it('enables a button when its command is enabled', async () => {
    shown.show();
    shown.openNotebook('kernel-9');
    await shown.receive({ gpus: gpuList() });
    const button = shown.panel.node.querySelector(
      '[aria-label^="Start: "]'
    ) as HTMLButtonElement | null;
    expect(button?.disabled).toBe(false);
    shown.openNotebook('kernel-1');
    shown.gpuDask.model.updateCluster(cluster({ status: 'closing' }));
    await rendered();
    expect(shown.names('.jp-GpuDask-cards [aria-label^="Start"]')).toEqual([]);
  });

  it('offers to start a shared cluster whatever the notebook has', async () => {
    shown.show();
    shown.openNotebook('kernel-1');
    await shown.receive({ gpus: gpuList(), clusters: [cluster()] });
    shown.panel.node
      .querySelector<HTMLButtonElement>('[title="Start a cluster"]')
      ?.click();
    await rendered();
    expect(menuLabels()).toEqual(['Start Shared Cluster…']);
    document.querySelector('.jp-GpuDask-menu')?.remove();
  });

  it('offers the shared clusters that are ready where there is no cluster, or the GPUs are reserved', async () => {
    shown.show();
    shown.openNotebook('kernel-1');
    shown.gpuDask.commands.addCommand(CommandIDs.useShared, {
      describedBy: { args: { type: 'object' } },
      execute: () => undefined
    });
    const shared = cluster({
      kernel_id: 'shared-1',
      name: 'Shared cluster 1',
      notebooks: []
    });
    const use = '[aria-label^="Use "]';
    await shown.receive({ gpus: gpuList(), clusters: [shared] });
    expect(shown.names(use)).toEqual(['Use Shared cluster 1: mine.ipynb']);
    expect(shown.names('li.jp-GpuDask-card')).toEqual(['Shared cluster 1']);
    const failed = cluster({ status: 'failed', reserved_gpus: ['GPU-7'] });
    await shown.receive({ gpus: gpuList(), clusters: [shared, failed] });
    expect(shown.names(use)).toEqual(['Use Shared cluster 1: analysis.ipynb']);
    const starting = { ...shared, status: 'starting' as const };
    await shown.receive({ gpus: gpuList(), clusters: [starting, failed] });
    expect(shown.names(use)).toEqual([]);
  });

  it('has the other commands of a cluster in a menu', async () => {
    shown.show();
    await shown.receive({ gpus: gpuList(), clusters: [cluster()] });
    shown.panel.node
      .querySelector<HTMLButtonElement>('.jp-GpuDask-more')
      ?.click();
    await rendered();
    expect(menuLabels()).toEqual([
      'Open Dask Dashboard',
      'Scale Cluster…',
      'Restart Cluster',
      'Copy Dask Client Code'
    ]);
    document.querySelector('.jp-GpuDask-menu')?.remove();
  });

  it('gives the focus back to the button when its menu closes', async () => {
    shown.show();
    await shown.receive({ gpus: gpuList(), clusters: [cluster()] });
    const button =
      shown.panel.node.querySelector<HTMLButtonElement>('.jp-GpuDask-more');
    button?.focus();
    button?.click();
    await rendered();
    expect(document.activeElement?.classList).toContain('jp-GpuDask-menu');
    document.activeElement?.dispatchEvent(
      new KeyboardEvent('keydown', { key: 'Escape', keyCode: 27 })
    );
    await rendered();
    expect(document.querySelector('.jp-GpuDask-menu')).toBeNull();
    expect(document.activeElement).toBe(button);
  });

  it.each(['Stop: ', 'More actions: '])(
    'takes the focus of a button that goes: %s',
    async label => {
      shown.show();
      await shown.receive({ gpus: gpuList(), clusters: [cluster()] });
      const button = shown.panel.node.querySelector<HTMLButtonElement>(
        `[aria-label^="${label}"]`
      );
      const section = button?.closest('.jp-GpuDask-section');
      button?.focus();
      // A command that is not possible any more keeps the focus on its button.
      await shown.receive({ clusters: [cluster({ status: 'closing' })] });
      expect(document.activeElement).not.toBe(document.body);
      await shown.receive({ clusters: [] });
      await rendered();
      expect(button?.isConnected).toBe(false);
      expect(document.activeElement).toBe(section);
    }
  );

  it('keeps the order of clusters, and shows idle ones of other notebooks in one line', async () => {
    shown.show();
    shown.openNotebook('kernel-2');
    const state = { ...cluster().state!, tasks_unfinished: 0 };
    const other = cluster({
      kernel_id: 'kernel-2',
      name: 'zebra.ipynb',
      state
    });
    const clusters = [other, cluster({ state })];
    await shown.receive({ gpus: gpuList(), clusters });
    expect(
      shown.texts('.jp-GpuDask-card[data-current] .jp-GpuDask-name')
    ).toEqual(['analysis', 'zebra']);
    expect(shown.names('.jp-GpuDask-cards .jp-GpuDask-button')).toEqual([
      'More actions: analysis.ipynb',
      'Plots: zebra.ipynb',
      'Choose a plot: zebra.ipynb',
      'Logs: zebra.ipynb',
      'Stop: zebra.ipynb',
      'More actions: zebra.ipynb'
    ]);
    expect(shown.texts('.jp-GpuDask-cards .jp-GpuDask-badge')).toEqual([
      'B',
      'A'
    ]);
  });

  it.each<[Partial<ICluster>, string, string[]]>([
    [
      { status: 'starting', workers_ready: 1, workers_total: 2 },
      'starting 1 of 2',
      ['Stop']
    ],
    [{ status: 'closing' }, 'stopping', []],
    [
      {
        status: 'failed',
        reason: 'GPU 0 is reserved.',
        error: details({ reason: 'GPU 0 is reserved.', field: 'gpus' }),
        workers_total: 0
      },
      'failed',
      ['Change options…', 'Start again']
    ],
    [
      {
        status: 'failed',
        reason: 'GPU 0 is reserved.',
        error: details({
          reason: 'GPU 0 is reserved.',
          field: 'gpus',
          actions: ['start-on-free', 'share', 'wait', 'unknown']
        }),
        workers_total: 0
      },
      'failed',
      // The last one is below the details.
      [
        'Change options…',
        'Start on the free GPUs',
        'Share GPUs',
        'Wait for GPUs'
      ]
    ],
    [
      {
        status: 'closed',
        reason: 'Its GPUs were handed over.',
        error: details({
          reason: 'Its GPUs were handed over.',
          actions: ['wait']
        })
      },
      'stopped',
      ['Wait for GPUs', 'Options…']
    ],
    [
      { status: 'failed', reason: 'A worker died.', log: 'Traceback' },
      'failed',
      ['Start again', 'Options…', 'Logs']
    ],
    [
      { status: 'closed', reason: 'It was idle.' },
      'stopped',
      ['Start again', 'Options…']
    ]
  ])(
    'shows the state and the buttons of %j',
    async (changes, state, labels) => {
      shown.show();
      await shown.receive({ gpus: gpuList(), clusters: [cluster(changes)] });
      expect(shown.texts('.jp-GpuDask-state')).toEqual([state]);
      expect(shown.texts('.jp-GpuDask-reason')).toEqual(
        changes.reason ? [expect.stringContaining(changes.reason)] : []
      );
      expect(shown.names(buttons)).toEqual(
        labels.map(name => `${name}: analysis.ipynb`)
      );
    }
  );

  it('shows why a cluster uses a CPU cluster', async () => {
    shown.show();
    const onCpu = cluster({
      engine: 'cpu',
      gpus: [],
      cpu_reason: 'There is no GPU.'
    });
    await shown.receive({ gpus: gpuList({ gpus: [] }), clusters: [onCpu] });
    expect(shown.texts('.jp-GpuDask-reason')).toEqual(['There is no GPU.']);
    expect(shown.texts('.jp-GpuDask-details')).toEqual(['CPU cluster']);
  });

  it('announces changes of state, but no metrics', async () => {
    shown.show();
    await shown.receive({ gpus: gpuList(), clusters: [cluster()] });
    expect(shown.texts('[role="status"]')).toEqual([
      'analysis.ipynb: ready, 1 × H200'
    ]);
  });
});
