import { Notification } from '@jupyterlab/apputils';
import { nullTranslator } from '@jupyterlab/translation';

import {
  IPlacedDashboard,
  NAMED_LAYOUTS,
  placeLayout,
  reportProblems
} from '../dashboard/layout';
import { ILayout, Settings } from '../model/settings';
import { cluster } from './fakeServer';

const PLOTS = [
  'cpu',
  'gpu-memory',
  'progress',
  'task-stream',
  'workers-memory'
].map(name => ({ title: name, path: `/individual-${name}` }));
const trans = nullTranslator.load('jupyter_gpudask');

/** Where a dashboard is placed, in words. */
function words({ dashboard, mode, beside }: IPlacedDashboard): string {
  const name = dashboard.plot?.title ?? 'status';
  return `${name} ${mode} ${beside?.dashboard.plot?.title ?? ''}`.trim();
}

function place(
  layout: ILayout,
  changes: Parameters<typeof cluster>[0] = {},
  plots = PLOTS
): { places: string[]; wrong: string[] } {
  const { dashboards, ...rest } = placeLayout(layout, cluster(changes), plots);
  return { places: dashboards.map(words), ...rest };
}

describe('a layout', () => {
  const { defaultLayout } = new Settings().value;

  it('places the plots of each default beside others', () => {
    expect(place(defaultLayout)).toEqual({
      places: [
        'task-stream split-right',
        'progress split-bottom task-stream',
        'gpu-memory split-bottom progress'
      ],
      wrong: []
    });
    expect(place(NAMED_LAYOUTS.Workers).places).toEqual([
      'task-stream split-right',
      'workers-memory split-bottom task-stream',
      'progress split-right workers-memory'
    ]);
    expect(place(NAMED_LAYOUTS.Status).places).toEqual(['status split-right']);
  });

  it('may be that of dask-labextension, with the names in addresses, and in any order', () => {
    expect(
      place({
        'individual-progress': {
          mode: 'tab-after',
          ref: 'individual-task-stream'
        },
        'individual-task-stream': { mode: 'split-left', ref: null },
        cpu: { mode: 'split-top', ref: '/individual-progress' }
      })
    ).toEqual({
      places: [
        'task-stream split-left',
        'progress tab-after task-stream',
        'cpu split-top progress'
      ],
      wrong: []
    });
  });

  it('places a plot where one was to be that the cluster does not have', () => {
    const plots = PLOTS.filter(({ title }) => title !== 'progress');
    expect(place(defaultLayout, {}, plots)).toMatchObject({
      places: [
        'task-stream split-right',
        'gpu-memory split-bottom task-stream'
      ],
      wrong: ['progress']
    });
  });

  it('leaves plots of GPUs out on the CPU, without a message', () => {
    const { places, wrong } = place(defaultLayout, { engine: 'cpu' });
    expect(places).toEqual([
      'task-stream split-right',
      'progress split-bottom task-stream'
    ]);
    expect(wrong).toEqual([]);
    const joined = { engine: 'cpu', joined: 'tcp://10.0.0.1:8786' } as const;
    expect(place(defaultLayout, joined).places).toHaveLength(3);
  });

  it('places a plot beside the notebook if that beside it is not in the layout, or waits for it', () => {
    expect(
      place({
        cpu: { mode: 'split-top', ref: 'progress' },
        'task-stream': { mode: 'split-right', ref: 'gpu-memory' },
        'gpu-memory': { mode: 'split-bottom', ref: 'task-stream' }
      })
    ).toEqual({
      places: [
        'cpu split-top',
        'gpu-memory split-bottom',
        'task-stream split-right gpu-memory'
      ],
      wrong: ['cpu (progress)', 'gpu-memory (task-stream)']
    });
  });

  it('is said to be wrong in one sentence, which JupyterLab shows in full', () => {
    const layout: ILayout = {
      'taskstream-in-the-middle-of-the-page': {},
      cpus: {},
      progress: { mode: 'split-bottom', ref: 'graph' }
    };
    const placed = placeLayout(layout, cluster(), PLOTS);
    expect(placed.dashboards.map(words)).toEqual(['progress split-bottom']);
    reportProblems('Mine', placed, trans);
    const messages = Notification.manager.notifications.map(
      ({ message }) => message
    );
    Notification.dismiss();
    expect(messages).toEqual([
      expect.stringMatching(
        /^The layout Mine in the settings .*: taskstr.*, progress \(graph\)$/
      )
    ]);
    messages.forEach(each => expect(each.length).toBeLessThanOrEqual(140));
    reportProblems('Good', { ...placed, wrong: [] }, trans);
    expect(Notification.manager.notifications).toEqual([]);
  });
});
