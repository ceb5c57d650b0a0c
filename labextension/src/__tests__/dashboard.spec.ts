import { nullTranslator } from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';
import { Widget } from '@lumino/widgets';

import {
  dashboardArgs,
  parseDashboard,
  IDashboard
} from '../dashboard/dashboard';
import { DashboardTab } from '../dashboard/tab';
import { Connection } from '../model/connection';
import { GpuDaskModel } from '../model/model';
import { RestClient } from '../model/rest';
import { CurrentKernel } from '../notebook/currentKernel';
import { startApp, TestApp } from './app';
import { cluster, rendered, FakeSocket, settingsOf } from './fakeServer';

const DASHBOARD = {
  kernelId: 'kernel-1',
  name: 'analysis.ipynb',
  notebooks: ['work/analysis.ipynb']
};
const PLOT = { title: 'Task Stream', path: '/individual-task-stream' };

let app: TestApp;
let model: GpuDaskModel;
let current: CurrentKernel;
let tab: DashboardTab;
let changes: IDashboard[];
/** The addresses that were given to the frame. */
let shown: string[];

beforeEach(() => {
  FakeSocket.all = [];
  const rest = new RestClient(settingsOf(() => new Response('{}')));
  app = startApp(rest.settings);
  model = new GpuDaskModel(new Connection(rest));
  current = new CurrentKernel(app.shell);
});

afterEach(() => {
  tab.dispose();
  model.dispose();
  app.shell.dispose();
});

function open(dashboard: IDashboard = DASHBOARD): void {
  const gpuDask = {
    model,
    current,
    commands: new CommandRegistry(),
    trans: nullTranslator.load('jupyter_gpudask'),
    rest: model.connection.rest,
    language: 'en'
  };
  tab = new DashboardTab(gpuDask, dashboard, 'http://server/');
  changes = [];
  tab.dashboardChanged.connect(() => changes.push(tab.dashboard));
  shown = [];
  const frame = tab.node.querySelector('iframe');
  if (frame) {
    new MutationObserver(records =>
      records.forEach(() => shown.push(frame.getAttribute('src') ?? ''))
    ).observe(frame, { attributeFilter: ['src'] });
  }
  Widget.attach(tab, document.body);
}

async function receive(
  ...clusters: ReturnType<typeof cluster>[]
): Promise<void> {
  FakeSocket.last.send({ clusters });
  await rendered();
}

const said = (): string | null | undefined =>
  tab.node.querySelector('.jp-GpuDask-noticeTitle')?.textContent;
const isOld = (): boolean =>
  tab.node.querySelector('.jp-IFrame')?.classList.contains('jp-mod-stale') ??
  false;

describe('a dashboard tab', () => {
  it.each([DASHBOARD, { ...DASHBOARD, plot: PLOT }])(
    'is the same after a reload: %j',
    dashboard => {
      open(dashboard);
      const kept = parseDashboard(dashboardArgs(tab.dashboard));
      expect(kept).toEqual({ ...dashboard, id: tab.id });
    }
  );

  it('shows the dashboard of a ready cluster without a notice', async () => {
    open();
    await receive(cluster());
    expect(shown).toEqual(['http://server/gpudask/dashboard/kernel-1/status']);
    expect(said()).toBeUndefined();
    expect(isOld()).toBe(false);
  });

  it('says that the dashboard is loading until its plots are drawn', async () => {
    const isLoading = (): boolean =>
      tab.node.querySelector('.jp-GpuDask-loading') !== null;
    open();
    const frame = tab.node.querySelector('iframe') as HTMLIFrameElement;
    const page = document.implementation.createHTMLDocument();
    page.body.innerHTML = '<div data-root-id="p1"></div>';
    jest.spyOn(frame, 'contentDocument', 'get').mockReturnValue(page);
    await receive(cluster());
    expect(isLoading()).toBe(true);
    frame.dispatchEvent(new Event('load'));
    await rendered();
    expect(isLoading()).toBe(true);
    page.querySelector('div')?.append(page.createElement('canvas'));
    await rendered();
    expect(isLoading()).toBe(false);
  });

  it('shows a notice when its cluster is closed, and marks the page as stale', async () => {
    open();
    await receive(cluster());
    await receive();
    expect(said()).toBe('The cluster of analysis.ipynb is closed.');
    expect(isOld()).toBe(true);
    await receive(
      cluster({ status: 'failed', reason: 'It was killed.', pid: null })
    );
    expect(said()).toBe('The cluster of analysis.ipynb: failed.');
    expect(tab.node.textContent).toContain('It was killed.');
  });

  it('loads the dashboard of the next cluster of its kernel', async () => {
    open();
    await receive(cluster());
    await receive(cluster({ status: 'starting', pid: null }));
    expect(isOld()).toBe(true);
    await receive(cluster({ pid: 200 }));
    expect(shown).toHaveLength(2);
    expect(said()).toBeUndefined();
    expect(isOld()).toBe(false);
  });

  it('gives the pages of a joined cluster an origin of their own', async () => {
    const joined = { joined: 'tcp://10.0.0.1:8786', pid: null };
    const sandbox = (): string | null | undefined =>
      tab.node.querySelector('iframe')?.getAttribute('sandbox');
    open();
    expect(sandbox()).toBe('allow-scripts');
    await receive(cluster());
    expect(sandbox()).toContain('allow-same-origin');
    await receive(cluster({ ...joined, since: 2000 }));
    expect(sandbox()).toBe('allow-scripts');
    expect(shown).toHaveLength(2);
    // The address has another secret after the next connection.
    await receive(cluster({ ...joined, since: 2000, name: 'new.ipynb' }));
    expect(shown).toHaveLength(2);
    await receive(cluster({ ...joined, since: 3000 }));
    expect(shown).toHaveLength(3);
    await receive(cluster({ pid: 200 }));
    expect(sandbox()).toContain('allow-same-origin');
  });

  it('follows its notebook to another kernel, also after a reload', async () => {
    open({ ...DASHBOARD, plot: PLOT });
    await receive(cluster());
    const other = cluster({
      kernel_id: 'kernel-2',
      notebooks: ['other.ipynb'],
      pid: 300
    });
    await receive(other);
    expect(said()).toBe('The cluster of analysis.ipynb is closed.');
    const next = cluster({ kernel_id: 'kernel-3', pid: 400 });
    await receive(other, next);
    expect(shown.at(-1)).toBe(
      'http://server/gpudask/dashboard/kernel-3/individual-task-stream'
    );
    expect(said()).toBeUndefined();
    expect(changes.at(-1)).toMatchObject({ kernelId: 'kernel-3', id: tab.id });
  });

  it('has the current name of its notebook', async () => {
    open();
    await receive(
      cluster({ name: 'new.ipynb', notebooks: ['work/new.ipynb'] })
    );
    expect(tab.title.label).toBe('Dask: new.ipynb');
    expect(changes).toMatchObject([{ notebooks: ['work/new.ipynb'] }]);
  });

  it('shows a notice when the connection is lost', async () => {
    open();
    await receive(cluster());
    FakeSocket.last.break();
    await rendered();
    expect(said()).toMatch(/^No data from the server/);
    expect(isOld()).toBe(true);
  });
});
