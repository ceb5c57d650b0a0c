import { Signal } from '@lumino/signaling';

import { cluster, GIB, gpu, rendered } from './fakeServer';
import { gpuList, ShownPanel } from './shownPanel';

let shown: ShownPanel;

/** A process on a GPU, of another program than a kernel. */
const TRAINER = {
  pid: 812,
  name: 'trainer',
  user: 'bob',
  memory: GIB,
  kernel_id: null,
  notebook: null
};

beforeEach(() => (shown = new ShownPanel()));
afterEach(() => shown.dispose());

describe('the section of GPUs', () => {
  it('labels each meter and its value', async () => {
    shown.show();
    await shown.receive({ gpus: gpuList() });
    const meters = Array.from(
      shown.panel.node.querySelectorAll('[role="meter"]')
    );
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
    expect(shown.texts('.jp-GpuDask-details span')).toEqual(['46 °C', '191 W']);
  });

  it('shows who waits for GPUs, with the places, and hides others if the settings do', async () => {
    shown.show();
    const other = {
      user: 'user anna since 14:05',
      own: false,
      kernel_id: null,
      since: 1000,
      gpus: ['GPU-0'],
      count: 2
    };
    const own = { ...other, user: 'user bob since 14:10', own: true, count: 1 };
    const line = '.jp-GpuDask-notes[aria-label="In line for GPUs"] li';
    const here = { ...own, kernel_id: 'kernel-1' };
    await shown.receive({
      gpus: gpuList({ waiting: [other, own, here] }),
      clusters: [cluster({ status: 'starting' })]
    });
    expect(shown.texts(line)).toEqual([
      '1. user anna since 14:05: 2 GPUs',
      '2. user bob since 14:10: 1 GPU',
      '3. analysis: 1 GPU'
    ]);
    shown.gpuDask.model.settings.follow({
      composite: { otherClusters: 'hide' },
      changed: new Signal<unknown, void>({})
    });
    await rendered();
    expect(shown.texts(line)).toEqual([
      '2. user bob since 14:10: 1 GPU',
      '3. analysis: 1 GPU'
    ]);
    await shown.receive({ gpus: gpuList() });
    expect(shown.texts(line)).toEqual([]);
  });

  it('emphasizes the card of a GPU, and the GPUs of a card, by pointer and by keyboard', async () => {
    shown.show();
    const gpus = ['1', '2', '2'].map((number, index) => {
      const id = `kernel-${number}`;
      const holders = [{ name: id, kernel_id: id, share: false }];
      return gpu({ index, uuid: `GPU-${index}`, holders });
    });
    const clusters = ['kernel-1', 'kernel-2'].map(kernel_id =>
      cluster({ kernel_id, name: kernel_id })
    );
    await shown.receive({ gpus: gpuList({ gpus }), clusters });
    const all = (selector: string): HTMLElement[] => [
      ...shown.panel.node.querySelectorAll<HTMLElement>(selector)
    ];
    const emphasized = (): number[] =>
      all('[data-kernels]').flatMap((each, index) =>
        each.hasAttribute('data-related') ? index : []
      );
    const point = (element: HTMLElement, event: string): unknown =>
      element.dispatchEvent(new MouseEvent(event, { bubbles: true }));
    const rows = all('.jp-GpuDask-gpu');
    const [, card] = all('.jp-GpuDask-card[data-kernel]');
    point(card, 'pointerover');
    expect(emphasized()).toEqual([1, 2]);
    point(card, 'pointerout');
    expect(emphasized()).toEqual([]);
    rows[0].querySelector('button')?.focus();
    expect(emphasized()).toEqual([3]);
    card.focus();
    expect(emphasized()).toEqual([1, 2]);
  });

  it('names the model once, and shows the details of a GPU on a click', async () => {
    shown.show();
    const holder = { name: 'a.ipynb', kernel_id: 'kernel-1', share: false };
    const gpus = [0, 1, 2].map(index =>
      gpu({
        index,
        uuid: `GPU-${index}`,
        holders: index === 1 ? [holder] : []
      })
    );
    gpus.push(gpu({ index: 3, uuid: 'GPU-3', name: 'NVIDIA L4' }));
    await shown.receive({ gpus: gpuList({ gpus }) });
    expect(shown.texts('.jp-GpuDask-gpuGroup')).toEqual([
      '3 × NVIDIA H200140 GiB',
      'NVIDIA L4140 GiB'
    ]);
    expect(shown.texts('.jp-GpuDask-gpuUser')).toEqual([
      'Unlisted',
      'a',
      'Unlisted',
      'Unlisted'
    ]);
    expect(shown.panel.node.querySelector('.jp-GpuDask-sparkline')).toBeNull();
    const toggle =
      shown.panel.node.querySelectorAll<HTMLButtonElement>(
        '.jp-GpuDask-toggle'
      )[1];
    expect(toggle.getAttribute('aria-label')).toBe('GPU 1: a.ipynb');
    toggle.click();
    await rendered();
    expect(toggle.getAttribute('aria-expanded')).toBe('true');
    expect(shown.texts('.jp-GpuDask-details').slice(0, 1)).toEqual([
      '46 °C191 W'
    ]);
    expect(
      shown.panel.node.querySelectorAll('.jp-GpuDask-sparkline').length
    ).toBe(2);
    toggle.click();
    await rendered();
    expect(shown.panel.node.querySelector('.jp-GpuDask-sparkline')).toBeNull();
  });

  it('has the letters of several clusters, and the folders of notebooks with the same name', async () => {
    shown.show();
    const clusters = ['a', 'b'].map(folder =>
      cluster({
        kernel_id: folder,
        name: 'train.ipynb',
        notebooks: [`${folder}/train.ipynb`]
      })
    );
    const holders = ['a', 'b'].map(id => ({
      name: 'train.ipynb',
      kernel_id: id,
      share: true
    }));
    const gpus = [gpu({ holders })];
    await shown.receive({ gpus: gpuList({ gpus }), clusters });
    expect(shown.texts('.jp-GpuDask-gpuUser')).toEqual(['AB']);
    expect(shown.names('.jp-GpuDask-toggle')).toEqual([
      'GPU 0: a/train.ipynb, b/train.ipynb'
    ]);
  });

  it('shows the details of two GPUs at first', async () => {
    shown.show();
    await shown.receive({
      gpus: gpuList({ gpus: [gpu(), gpu({ index: 1, uuid: 'GPU-1' })] })
    });
    expect(
      shown.panel.node.querySelectorAll('.jp-GpuDask-sparkline').length
    ).toBe(4);
  });

  it('omits metrics that are not available', async () => {
    shown.show();
    const bare = gpu({
      utilization: null,
      memory_used: null,
      temperature: null,
      power: null
    });
    await shown.receive({ gpus: gpuList({ gpus: [bare] }) });
    expect(shown.panel.node.querySelector('[role="meter"]')).toBeNull();
    expect(shown.texts('.jp-GpuDask-metric')).toEqual([
      'GPU 0 busy unknown',
      'GPU 0 memory unknown'
    ]);
  });

  it('lists the notebooks that hold a GPU by their current names, and other processes', async () => {
    shown.show();
    const own = { ...TRAINER, memory: 3 * GIB, kernel_id: 'kernel-1' };
    const other = { ...TRAINER, memory: 2 * GIB };
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
    await shown.receive({
      gpus: gpuList({ gpus: [held] }),
      clusters: [cluster()]
    });
    expect(shown.texts('.jp-GpuDask-holders li')).toEqual([
      'analysis3.0 GiB',
      'trainer, pid 812bob, 2.0 GiB',
      'Kernel of other.ipynb, pid 813ada, 1.0 GiB'
    ]);
  });

  it('does not show a GPU as free if it is busy or its memory is in use', async () => {
    shown.show();
    const hidden = { memory_used: 100 * GIB, hidden_use: true };
    await shown.receive({
      gpus: gpuList({
        gpus: [
          gpu({ memory_used: GIB, utilization: 0 }),
          gpu({ uuid: 'GPU-1', ...hidden }),
          gpu({ uuid: 'GPU-2', ...hidden, users: [TRAINER] })
        ]
      })
    });
    expect(shown.texts('.jp-GpuDask-gpuUser')).toEqual([
      'Free',
      'In use',
      'trainer'
    ]);
    shown.panel.node
      .querySelectorAll<HTMLButtonElement>('.jp-GpuDask-toggle')
      .forEach(toggle => toggle.click());
    await rendered();
    expect(shown.texts('.jp-GpuDask-holders li')).toEqual([
      'Unlisted processes100 GiB',
      'trainer, pid 812bob, 1.0 GiB',
      'Unlisted processes99 GiB'
    ]);
  });

  it('does not show a GPU as free if its processes are hidden by a setting', async () => {
    shown.show();
    shown.gpuDask.model.settings.follow({
      composite: { showProcesses: false },
      changed: new Signal<unknown, void>({})
    });
    const used = gpu({ users: [TRAINER] });
    await shown.receive({ gpus: gpuList({ gpus: [used] }) });
    expect(shown.texts('.jp-GpuDask-gpuUser')).toEqual(['In use']);
  });

  it('shows why there are no GPUs, and the fix', async () => {
    shown.show();
    const reason = 'This machine has no NVIDIA driver.';
    await shown.receive({
      gpus: gpuList({ gpus: [], reason, fix: 'Install one.' })
    });
    expect(shown.texts('.jp-GpuDask-notice p').slice(0, 2)).toEqual([
      reason,
      'Install one.'
    ]);
  });

  it('says that clusters run on the CPU, unless they have GPUs elsewhere', async () => {
    shown.show();
    await shown.receive({ gpus: gpuList({ gpus: [] }), clusters: [] });
    const hint = 'Clusters run the same code on the CPU.';
    expect(shown.texts('.jp-GpuDask-notice p')).toContain(hint);
    await shown.receive({ clusters: [cluster()] });
    expect(shown.texts('.jp-GpuDask-notice p')).not.toContain(hint);
  });
});
