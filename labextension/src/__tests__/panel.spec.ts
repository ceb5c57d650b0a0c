import { ISessionContext } from '@jupyterlab/apputils';
import {
  ITranslator,
  nullTranslator,
  TranslationBundle
} from '@jupyterlab/translation';
import { SidePanel } from '@jupyterlab/ui-components';
import { CommandRegistry } from '@lumino/commands';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';

import { ClusterActions } from '../cluster/actions';
import { addClusterCommands } from '../cluster/commands';
import { CommandIDs } from '../commandIDs';
import { ICluster, IGpuList, IStreamMessage } from '../model/api';
import { Connection } from '../model/connection';
import { GpuDaskModel } from '../model/model';
import { RestClient } from '../model/rest';
import { CurrentKernel } from '../notebook/currentKernel';
import { createPanel, PANEL_ID } from '../panel/panel';
import { IGpuDask } from '../tokens';
import { startApp, TestApp } from './app';
import {
  cluster,
  rendered,
  FakeSocket,
  GIB,
  gpu,
  settingsOf
} from './fakeServer';

/** Marks every sentence, so that untranslated ones are found. */
const markingTranslator: ITranslator = {
  ...nullTranslator,
  load: (domain: string): TranslationBundle => {
    const bundle = Object.create(
      nullTranslator.load(domain)
    ) as TranslationBundle;
    bundle.__ = (sentence: string) => `«${sentence}»`;
    return bundle;
  }
};

let app: TestApp;
let panel: SidePanel;
let current: CurrentKernel;
let gpuDask: IGpuDask;
let reply: () => Response;

beforeEach(() => {
  FakeSocket.all = [];
  reply = () => new Response('{}');
});

afterEach(() => {
  panel.dispose();
  gpuDask.model.dispose();
  current.dispose();
  app.shell.dispose();
});

function show(translator: ITranslator = nullTranslator): SidePanel {
  const rest = new RestClient(settingsOf(() => reply()));
  app = startApp(rest.settings);
  const model = new GpuDaskModel(new Connection(rest));
  const trans = translator.load('jupyter_gpudask');
  current = new CurrentKernel(app.shell);
  gpuDask = { model, current, commands: new CommandRegistry(), trans };
  const actions = new ClusterActions(model, rest, trans);
  addClusterCommands(
    gpuDask,
    async () => actions,
    {
      open: () => undefined,
      openLayout: () => undefined
    },
    () => Promise.resolve()
  );
  panel = createPanel(gpuDask, translator);
  Widget.attach(panel, document.body);
  return panel;
}

/** Send a message of the server, and wait until it is rendered. */
async function receive(message: Partial<IStreamMessage>): Promise<void> {
  FakeSocket.last.send(message);
  await rendered();
}

function gpuList(changes: Partial<IGpuList> = {}): IGpuList {
  return { gpus: [gpu()], reason: '', fix: '', ...changes };
}

function texts(selector: string): (string | null)[] {
  return Array.from(
    panel.node.querySelectorAll(selector),
    node => node.textContent
  );
}

function names(selector: string): (string | null)[] {
  return Array.from(panel.node.querySelectorAll(selector), node =>
    node.getAttribute('aria-label')
  );
}

/** Make a notebook the current one. */
function openNotebook(kernelId: string | null): void {
  jest
    .spyOn(gpuDask.current, 'session', 'get')
    .mockReturnValue({} as ISessionContext);
  jest.spyOn(gpuDask.current, 'name', 'get').mockReturnValue('mine.ipynb');
  jest.spyOn(gpuDask.current, 'kernelId', 'get').mockReturnValue(kernelId);
}

describe('the panel', () => {
  it('has an id, a caption and an icon for the sidebar', () => {
    show();
    expect(panel.id).toBe(PANEL_ID);
    expect(panel.title.caption).toBe('GPU Dask');
    expect(panel.title.icon).toMatchObject({
      name: 'jupyter-gpudask:gpu-card'
    });
  });

  it('shows the sections GPUs and Clusters in a labelled region', () => {
    show();
    expect(texts('.lm-AccordionPanel-titleLabel')).toEqual([
      'GPUs',
      'Clusters'
    ]);
    const region = panel.node.querySelector(
      '[role="region"][aria-label="GPU Dask"]'
    );
    expect(region).toBe(panel.content.node);
  });

  it('translates every sentence, but no code', async () => {
    show(markingTranslator);
    reply = () => new Response('', { status: 404 });
    FakeSocket.last.break();
    await rendered();
    const sentences = texts('.lm-AccordionPanel-titleLabel, p');
    expect(sentences.length).toBeGreaterThan(6);
    sentences.forEach(sentence => expect(sentence).toMatch(/^«.+»$/));
    texts('code').forEach(code => expect(code).not.toContain('«'));
  });
});

describe('the section of GPUs', () => {
  it('labels each meter and its value', async () => {
    show();
    await receive({ gpus: gpuList() });
    const meters = Array.from(panel.node.querySelectorAll('[role="meter"]'));
    expect(
      meters.map(meter => [
        meter.getAttribute('aria-label'),
        meter.getAttribute('aria-valuenow'),
        meter.getAttribute('aria-valuetext')
      ])
    ).toEqual([
      ['GPU 0 busy', '78', '78 %'],
      ['GPU 0 memory', '29', '41 of 140 GiB']
    ]);
    expect(texts('.jp-GpuDask-details span')).toEqual(['46 °C', '191 W']);
  });

  it('names the model once, and shows the details of a GPU on a click', async () => {
    show();
    const holder = { name: 'a.ipynb', kernel_id: 'kernel-1', share: false };
    const gpus = [0, 1, 2].map(index =>
      gpu({
        index,
        uuid: `GPU-${index}`,
        holders: index === 1 ? [holder] : []
      })
    );
    gpus.push(gpu({ index: 3, uuid: 'GPU-3', name: 'NVIDIA L4' }));
    await receive({ gpus: gpuList({ gpus }) });
    expect(texts('.jp-GpuDask-gpuGroup')).toEqual([
      '3 × NVIDIA H200140 GiB',
      'NVIDIA L4140 GiB'
    ]);
    expect(texts('.jp-GpuDask-gpuUser')).toEqual([
      'Free',
      'a.ipynb',
      'Free',
      'Free'
    ]);
    expect(panel.node.querySelector('.jp-GpuDask-sparkline')).toBeNull();
    const toggle =
      panel.node.querySelectorAll<HTMLButtonElement>('.jp-GpuDask-toggle')[1];
    expect(toggle.getAttribute('aria-label')).toBe('GPU 1: a.ipynb');
    toggle.click();
    await rendered();
    expect(toggle.getAttribute('aria-expanded')).toBe('true');
    expect(texts('.jp-GpuDask-details').slice(0, 1)).toEqual(['46 °C191 W']);
    expect(panel.node.querySelectorAll('.jp-GpuDask-sparkline').length).toBe(2);
    toggle.click();
    await rendered();
    expect(panel.node.querySelector('.jp-GpuDask-sparkline')).toBeNull();
  });

  it('shows the details of two GPUs at first', async () => {
    show();
    await receive({
      gpus: gpuList({ gpus: [gpu(), gpu({ index: 1, uuid: 'GPU-1' })] })
    });
    expect(panel.node.querySelectorAll('.jp-GpuDask-sparkline').length).toBe(4);
  });

  it('omits metrics that are not available', async () => {
    show();
    const bare = gpu({
      utilization: null,
      memory_used: null,
      temperature: null,
      power: null
    });
    await receive({ gpus: gpuList({ gpus: [bare] }) });
    expect(panel.node.querySelector('[role="meter"]')).toBeNull();
    expect(texts('.jp-GpuDask-metric')).toEqual([
      'GPU 0 busy unknown',
      'GPU 0 memory unknown'
    ]);
  });

  it('lists the notebooks that hold a GPU by their current names, and other processes', async () => {
    show();
    const own = {
      pid: 1,
      name: 'python',
      user: 'ada',
      memory: 3 * GIB,
      kernel_id: 'kernel-1',
      notebook: null
    };
    const other = {
      pid: 812,
      name: 'trainer',
      user: 'bob',
      memory: 2 * GIB,
      kernel_id: null,
      notebook: null
    };
    const outside = {
      pid: 813,
      name: 'python',
      user: 'ada',
      memory: GIB,
      kernel_id: 'kernel-2',
      notebook: 'other.ipynb'
    };
    const holder = {
      name: 'work/Untitled.ipynb',
      kernel_id: 'kernel-1',
      share: false
    };
    const held = gpu({ holders: [holder], users: [own, other, outside] });
    await receive({ gpus: gpuList({ gpus: [held] }), clusters: [cluster()] });
    expect(texts('.jp-GpuDask-holders li')).toEqual([
      'analysis.ipynb3.0 GiB',
      'trainer, pid 812bob, 2.0 GiB',
      'Kernel of other.ipynb, pid 813ada, 1.0 GiB'
    ]);
  });

  it('does not show a GPU as free if its memory is in use', async () => {
    show();
    const listed = {
      pid: 812,
      name: 'trainer',
      user: 'bob',
      memory: GIB,
      kernel_id: null,
      notebook: null
    };
    const hidden = { memory_used: 100 * GIB, hidden_use: true };
    await receive({
      gpus: gpuList({
        gpus: [
          gpu({ memory_used: GIB }),
          gpu({ uuid: 'GPU-1', ...hidden }),
          gpu({ uuid: 'GPU-2', ...hidden, users: [listed] })
        ]
      })
    });
    expect(texts('.jp-GpuDask-gpuUser')).toEqual(['Free', 'In use', 'trainer']);
    panel.node
      .querySelectorAll<HTMLButtonElement>('.jp-GpuDask-toggle')
      .forEach(toggle => toggle.click());
    await rendered();
    expect(texts('.jp-GpuDask-holders li')).toEqual([
      'Unlisted processes100 GiB',
      'trainer, pid 812bob, 1.0 GiB',
      'Unlisted processes99 GiB'
    ]);
  });

  it('does not show a GPU as free if its processes are hidden by a setting', async () => {
    show();
    gpuDask.model.settings.follow({
      composite: { showProcesses: false },
      changed: new Signal<unknown, void>({})
    });
    const user = {
      pid: 812,
      name: 'trainer',
      user: 'bob',
      memory: GIB,
      kernel_id: null,
      notebook: null
    };
    await receive({ gpus: gpuList({ gpus: [gpu({ users: [user] })] }) });
    expect(texts('.jp-GpuDask-gpuUser')).toEqual(['In use']);
  });

  it('shows why there are no GPUs, and the fix', async () => {
    show();
    const reason = 'This machine has no NVIDIA driver.';
    await receive({
      gpus: gpuList({ gpus: [], reason, fix: 'Install one.' })
    });
    expect(texts('.jp-GpuDask-notice p').slice(0, 2)).toEqual([
      reason,
      'Install one.'
    ]);
  });
});

describe('the section of clusters', () => {
  const buttons = '.jp-GpuDask-section .jp-GpuDask-button';

  it('shows that no notebook is open', async () => {
    show();
    await receive({ gpus: gpuList() });
    expect(texts('.jp-GpuDask-noticeTitle')).toEqual(['No notebook is open.']);
  });

  it('has buttons to start a cluster for the current notebook', async () => {
    show();
    openNotebook('kernel-9');
    await receive({ gpus: gpuList() });
    expect(texts('.jp-GpuDask-noticeTitle')).toEqual([
      'mine.ipynb has no cluster yet.'
    ]);
    expect(names(buttons)).toEqual([
      'Start: mine.ipynb',
      'Options…: mine.ipynb'
    ]);
  });

  it('asks for a kernel if the notebook has none', async () => {
    show();
    openNotebook(null);
    await receive({ gpus: gpuList() });
    expect(texts('.jp-GpuDask-noticeTitle')).toEqual([
      'mine.ipynb has no kernel.'
    ]);
  });

  it('shows the tasks of a cluster and its workers', async () => {
    show();
    await receive({ gpus: gpuList(), clusters: [cluster()] });
    expect(texts('.jp-GpuDask-stateLine')).toEqual([
      'ready4 running, 6 waiting, 3.0 GiB spilled'
    ]);
    expect(texts('.jp-GpuDask-workers li')).toEqual([
      'GPU 04 running, 1 assignedpool 80 %, 3.0 GiB spilled'
    ]);
    expect(names(buttons)).toEqual([
      'Plots: analysis.ipynb',
      'Choose a plot: analysis.ipynb',
      'Logs: analysis.ipynb',
      'Stop: analysis.ipynb',
      'More actions: analysis.ipynb'
    ]);
  });

  it('shows the size of the results, and how many GPUs are used', async () => {
    show();
    const { state } = cluster();
    const scaled = cluster({
      gpus: ['GPU-0', 'GPU-1'],
      state: state && { ...state, gpus: ['GPU-0'], held: 3 * GIB }
    });
    const gpus = [gpu(), gpu({ index: 1, uuid: 'GPU-1' })];
    await receive({ gpus: gpuList({ gpus }), clusters: [scaled] });
    expect(texts('.jp-GpuDask-stateLine')).toEqual([
      'ready4 running, 6 waiting, 3.0 GiB spilled, holds 3.0 GiB of results'
    ]);
    expect(texts('.jp-GpuDask-cards .jp-GpuDask-details').at(-1)).toBe(
      '1 of 2 × H200'
    );
  });

  it('enables a button when its command is enabled', async () => {
    show();
    openNotebook('kernel-9');
    await receive({ gpus: gpuList() });
    const button = panel.node.querySelector(
      '[aria-label^="Start"]'
    ) as HTMLButtonElement | null;
    expect(button?.disabled).toBe(false);
    openNotebook('kernel-1');
    gpuDask.model.updateCluster(cluster({ status: 'closing' }));
    await rendered();
    expect(
      panel.node.querySelector('[aria-label^="Start"]:not(:disabled)')
    ).toBeNull();
  });

  it('has the other commands of a cluster in a menu', async () => {
    show();
    await receive({ gpus: gpuList(), clusters: [cluster()] });
    panel.node.querySelector<HTMLButtonElement>('.jp-GpuDask-more')?.click();
    await rendered();
    const labels = Array.from(
      document.querySelectorAll('.jp-GpuDask-menu .lm-Menu-itemLabel'),
      node => node.textContent
    );
    expect(labels.filter(Boolean)).toEqual([
      'Open Dask Dashboard',
      'Scale Cluster…',
      'Restart Cluster',
      'Copy Dask Client Code'
    ]);
    document.querySelector('.jp-GpuDask-menu')?.remove();
  });

  it('shows the cluster of the current notebook first', async () => {
    show();
    openNotebook('kernel-2');
    const other = cluster({ kernel_id: 'kernel-2', name: 'zebra.ipynb' });
    await receive({ gpus: gpuList(), clusters: [cluster(), other] });
    expect(texts('.jp-GpuDask-card[data-current] .jp-GpuDask-name')).toEqual([
      'zebra.ipynb',
      'analysis.ipynb'
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
        reason: 'GPU 0 is held.',
        fix: 'Take --gpus 1.',
        workers_total: 0
      },
      'failed',
      ['Change options…', 'Start again']
    ],
    [
      {
        status: 'failed',
        reason: 'GPU 0 is held.',
        fix: 'Start on the GPUs that are free with --gpus free.',
        workers_total: 0
      },
      'failed',
      ['Start on the free GPUs', 'Change options…']
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
      show();
      await receive({ gpus: gpuList(), clusters: [cluster(changes)] });
      expect(texts('.jp-GpuDask-state')).toEqual([state]);
      expect(texts('.jp-GpuDask-reason')).toEqual(
        changes.reason ? [expect.stringContaining(changes.reason)] : []
      );
      expect(names(buttons)).toEqual(
        labels.map(name => `${name}: analysis.ipynb`)
      );
    }
  );

  it('shows why a cluster uses the CPU stand-in', async () => {
    show();
    const standIn = cluster({
      engine: 'cpu',
      gpus: [],
      stand_in: 'There is no GPU.'
    });
    await receive({ gpus: gpuList({ gpus: [] }), clusters: [standIn] });
    expect(texts('.jp-GpuDask-reason')).toEqual(['There is no GPU.']);
    expect(texts('.jp-GpuDask-details')).toEqual(['CPU stand-in']);
  });

  it('announces changes of state, but no metrics', async () => {
    show();
    await receive({ gpus: gpuList(), clusters: [cluster()] });
    expect(texts('[role="status"]')).toEqual([
      'analysis.ipynb: ready, 1 × H200'
    ]);
  });
});

describe('the connection', () => {
  it('shows when it is lost and when it retries, with the last known state', async () => {
    show();
    await receive({ gpus: gpuList(), clusters: [cluster()] });
    reply = () => {
      throw new TypeError('Failed to fetch');
    };
    FakeSocket.last.break();
    await rendered();
    const notice = panel.header.node;
    expect(notice.textContent).toMatch(
      /^The connection to the server is lost\.Retrying in 1 sRetry now$/
    );
    expect(texts('.jp-GpuDask-workers li')).toHaveLength(1);
    expect(panel.node.querySelectorAll('[data-stale="true"]')).toHaveLength(2);
  });

  it('shows how to enable a missing server extension', async () => {
    show();
    reply = () => new Response('', { status: 404 });
    FakeSocket.last.break();
    await rendered();
    expect(texts('.jp-GpuDask-noticeTitle')[0]).toBe(
      'This server does not run the GPU Dask extension.'
    );
    expect(texts('code')).toEqual([
      'jupyter server extension enable jupyter_gpudask',
      '%load_ext jupyter_gpudask\n%gpudask gpus',
      '%load_ext jupyter_gpudask\n%gpudask start'
    ]);
    openNotebook('kernel-9');
    expect(gpuDask.commands.isEnabled(CommandIDs.start)).toBe(false);
  });
});
