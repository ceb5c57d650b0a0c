import { nullTranslator } from '@jupyterlab/translation';

import { reasonText, snapshot } from '../cluster/snapshot';
import { ICluster, IGpuHolder, IGpuList } from '../model/api';
import { GpuDaskModel } from '../model/model';
import { cluster, details, gpu } from './fakeServer';
import { gpuList, ShownPanel } from './shownPanel';

const other = { name: 'other.ipynb', kernel_id: 'kernel-2', share: false };
const held = (holders: IGpuHolder[][], waiting: object[] = []): IGpuList =>
  gpuList({
    gpus: holders.map((each, index) =>
      gpu({ index, uuid: `GPU-${index}`, holders: each })
    ),
    waiting: waiting as IGpuList['waiting']
  });
const refused = (changes: Partial<ICluster> = {}): ICluster =>
  cluster({
    status: 'failed',
    reason: 'GPUs 0, 1 are reserved by other.ipynb.',
    error: details({
      reason: 'GPUs 0, 1 are reserved by other.ipynb.',
      field: 'gpus'
    }),
    reserved_gpus: ['GPU-0', 'GPU-1'],
    workers_total: 0,
    state: null,
    ...changes
  });
describe('the card of a cluster whose GPUs were reserved', () => {
  let shown: ShownPanel;

  beforeEach(() => (shown = new ShownPanel()));
  afterEach(() => shown.dispose());

  const buttons = (): (string | undefined)[] =>
    shown.texts('.jp-GpuDask-card .jp-GpuDask-actions button');

  it('says that they are free when they are, and offers to start it', async () => {
    shown.show();
    const clusters = [refused()];
    const both = held([[other], [other]]);
    await shown.receive({ gpus: both, clusters });
    const reason = (): string | undefined =>
      shown.texts('.jp-GpuDask-reason')[0];
    expect(reason()).toMatch(/^GPUs 0, 1 are reserved by other.ipynb\./);
    expect(buttons()).toEqual(['Change options…', 'Start again']);

    const renamed = { ...other, name: 'renamed.ipynb' };
    const one = held([[], [renamed]]);
    await shown.receive({ type: 'changes', time: 1005, gpus: one });
    expect(reason()).toMatch(/^GPU 1 is reserved by renamed.ipynb\./);

    const none = held([[], []]);
    await shown.receive({ type: 'changes', time: 1010, gpus: none });
    expect(shown.texts('.jp-GpuDask-reason')).toEqual([
      'The cluster did not start because GPUs 0, 1 were reserved. They are free now.'
    ]);
    expect(buttons()).toEqual(['Start again', 'Options…']);

    await shown.receive({ type: 'changes', time: 1015, gpus: both });
    expect(reason()).toMatch(/^GPUs 0, 1 are/);
  });

  it('is short if many hold many', async () => {
    shown.show();
    const holders = ['a', 'b', 'c', 'c', 'c'].map(name => [{ ...other, name }]);
    const uuids = holders.map((_, index) => `GPU-${index}`);
    const clusters = [refused({ reserved_gpus: uuids })];
    await shown.receive({ gpus: held(holders), clusters });
    const reason = (): string | undefined =>
      shown.texts('.jp-GpuDask-reason strong')[0];
    expect(reason()).toBe('All 5 GPUs are reserved.');
    expect(shown.texts('.jp-GpuDask-reason')[0]).toContain(
      'GPUs 2–4 are reserved by c.'
    );

    const two = holders.map((each, index) => (index < 2 ? holders[0] : each));
    await shown.receive({ type: 'changes', time: 1005, gpus: held(two) });
    expect(reason()).toBe(
      'GPUs 0, 1 are reserved by a. GPUs 2–4 are reserved by c.'
    );
  });
});

it.each([true, false])(
  'GPUs are offered to be shared if their holder does: %s',
  share => {
    const trans = nullTranslator.load('jupyter_gpudask');
    const gpus = held([[{ ...other, share }]]);
    const model = { gpus, clusters: new Map() } as unknown as GpuDaskModel;
    const error = details({ field: 'gpus', actions: ['share', 'wait'] });
    const failed = refused({ error, reserved_gpus: ['GPU-0'] });
    const { starts } = snapshot(failed, { model, trans });
    const labels = starts.map(({ label }) => label);
    expect(labels.includes('Share GPUs')).toBe(share);
    expect(labels).toContain('Wait for GPUs');
  }
);

describe('whether the GPUs are free again', () => {
  it.each<[string, IGpuHolder[], object[], Partial<ICluster>, boolean]>([
    ['a GPU that nobody has reserved', [], [], {}, true],
    [
      'a GPU that its own kernel holds',
      [{ ...other, kernel_id: 'kernel-1' }],
      [],
      {},
      true
    ],
    [
      'a GPU that both share',
      [{ ...other, share: true }],
      [],
      { spec: { ...cluster().spec, share: true } },
      true
    ],
    [
      'a GPU that only the other one shares',
      [{ ...other, share: true }],
      [],
      {},
      false
    ],
    ['a GPU for which others wait', [], [{}], {}, false],
    [
      'a GPU that is not listed',
      [],
      [],
      { reserved_gpus: ['GPU-0', 'GPU-7'] },
      false
    ],
    [
      'any other failure',
      [],
      [],
      { reason: 'The supervisor did not respond.', reserved_gpus: [] },
      false
    ],
    ['a cluster that runs', [], [], { status: 'ready' }, false]
  ])('is tested for %s', (_, holders, waiting, changes, expected) => {
    const failed = refused({ reserved_gpus: ['GPU-0'], ...changes });
    const trans = nullTranslator.load('jupyter_gpudask');
    const isFree = (gpus: IGpuList | null): boolean => {
      const model = { gpus, clusters: new Map() } as unknown as GpuDaskModel;
      const text = reasonText(snapshot(failed, { model, trans }));
      return text.includes('is free now');
    };
    expect(isFree(held([holders], waiting))).toBe(expected);
    expect(isFree(null)).toBe(false);
  });
});
