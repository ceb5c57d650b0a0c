import { acceptDialog, dismissDialog } from '@jupyterlab/testing';
import { nullTranslator } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';

import { ClusterActions } from '../cluster/actions';
import { lossWarning } from '../cluster/warnings';
import { ICluster } from '../model/api';
import { Connection } from '../model/connection';
import { GpuDaskModel } from '../model/model';
import { RestClient } from '../model/rest';
import { IGpuDask } from '../tokens';
import { dialogShown } from './app';
import {
  cluster,
  details,
  rendered,
  FakeSocket,
  gpu,
  IRequest,
  offer,
  settingsOf
} from './fakeServer';

let model: GpuDaskModel;
let requests: string[];

/** Actions with a server that replies like this. */
function actionsOn(reply: (request: IRequest) => Response): ClusterActions {
  const rest = new RestClient(
    settingsOf(request => {
      requests.push(request.method);
      return reply(request);
    })
  );
  model = new GpuDaskModel(new Connection(rest));
  const trans = nullTranslator.load('jupyter_gpudask');
  const current = { changed: new Signal({}) };
  return new ClusterActions({
    model,
    rest,
    trans,
    current
  } as unknown as IGpuDask);
}

const state = (tasks: number) =>
  ({
    state: { ...cluster().state, workers: [], tasks_unfinished: tasks }
  }) as unknown as Partial<ICluster>;

const replyWith = (tasks: number) => (request: IRequest) =>
  request.method === 'GET'
    ? new Response(JSON.stringify(cluster(state(tasks))))
    : new Response(null, { status: 204 });

beforeEach(() => {
  FakeSocket.all = [];
  requests = [];
});

afterEach(() => model.dispose());

describe('stopping a cluster', () => {
  it('asks for confirmation if the server reports unfinished tasks', async () => {
    const stopping = actionsOn(replyWith(3)).stop(cluster(state(0)));
    await dialogShown();
    await rendered();
    // As the card says.
    expect(document.body.textContent).toContain('23 of 144 blocks are done.');
    await dismissDialog();
    await stopping;
    expect(requests).toEqual(['GET']);
  });

  it('names the unfinished tasks while no progress is known', () => {
    const work = { tasks: 0, blocks: 0, done: 0, seconds_left: null };
    const changed = { ...cluster().state, work, tasks_unfinished: 4096 };
    const text = lossWarning(
      { ...cluster(), state: changed } as ICluster,
      'GiB',
      nullTranslator.load('jupyter_gpudask')
    );
    expect(text).toContain('4,096 tasks are not finished.');
  });

  it.each(['stop', 'restart'] as const)(
    'asks for confirmation while the notebook is running a cell: %s',
    async act => {
      const busy = cluster({ ...state(0), busy: true });
      const acting = actionsOn(() => new Response(JSON.stringify(busy)))[act](
        cluster(state(0))
      );
      await dialogShown();
      await rendered();
      expect(document.body.textContent).toContain(
        'Its notebook is running a cell.'
      );
      await dismissDialog();
      await acting;
      expect(requests).toEqual(['GET']);
    }
  );

  it('says that the reason of the question is gone, and still stops', async () => {
    const busy = cluster({ ...state(0), busy: true });
    const stopping = actionsOn(
      ({ method }) =>
        new Response(method === 'GET' ? JSON.stringify(busy) : null)
    ).stop(busy);
    await dialogShown();
    await rendered();
    FakeSocket.last.send({ clusters: [cluster({ ...state(0) })] });
    await rendered();
    const dialog = document.querySelector('.jp-Dialog');
    expect(dialog?.textContent).toContain('nothing would be lost now');
    FakeSocket.last.send({ clusters: [busy] });
    await rendered();
    expect(dialog?.textContent).toContain('Its notebook is running a cell.');
    await acceptDialog();
    await stopping;
    expect(requests).toEqual(['GET', 'DELETE']);
  });

  it.each([
    ['has ended', []],
    ['was replaced', [cluster({ ...state(3), pid: 300, since: 3000 })]]
  ])('takes the question back when the cluster %s', async (_, clusters) => {
    const stopping = actionsOn(replyWith(3)).stop(cluster(state(0)));
    await dialogShown();
    await rendered();
    FakeSocket.last.send({ clusters });
    await stopping;
    expect(document.querySelector('.jp-Dialog')).toBeNull();
    expect(requests).toEqual(['GET']);
  });

  it('does not ask if the tasks have finished in the meantime', async () => {
    await actionsOn(replyWith(0)).stop(cluster(state(3)));
    expect(requests).toEqual(['GET', 'DELETE']);
  });

  it('asks for confirmation if the workers hold results, with their size', async () => {
    const { state } = cluster();
    const held = cluster({
      state: state && {
        ...state,
        workers: [],
        result_bytes: 800 * 2 ** 20,
        tasks_unfinished: 0
      }
    });
    const answer = ({ method }: IRequest) =>
      new Response(method === 'GET' ? JSON.stringify(held) : null);
    for (const act of ['stop', 'restart'] as const) {
      const acting = actionsOn(answer)[act](cluster());
      await dialogShown();
      await rendered();
      expect(document.body.textContent).toContain(
        'Its workers hold 800 MiB of results, which will be lost.'
      );
      await dismissDialog();
      await acting;
    }
    expect(requests).toEqual(['GET', 'GET']);
  });

  it('releases results after a confirmation that says where they are', async () => {
    const { state } = cluster();
    const holding = (bytes: number): ICluster =>
      cluster({
        state: state && {
          ...state,
          workers: state.workers.map(worker => ({
            ...worker,
            result_bytes: bytes
          })),
          result_bytes: bytes
        }
      });
    const paths: string[] = [];
    const actions = actionsOn(({ method, url }) => {
      paths.push(`${method} ${url.split('/api/')[1]}`);
      const now = holding(method === 'GET' ? 800 * 2 ** 20 : 0);
      return new Response(JSON.stringify(now));
    });
    const releasing = actions.release(holding(2 ** 20));
    await dialogShown();
    await rendered();
    expect(document.body.textContent).toContain(
      'Its workers hold 800 MiB of results (GPU 0 800 MiB), which will be lost'
    );
    await acceptDialog();
    await releasing;
    expect(paths).toEqual([
      'GET clusters/kernel-1',
      'POST clusters/kernel-1/release'
    ]);
    expect(model.clusters.get('kernel-1')?.state?.result_bytes).toBe(0);
  });

  it('does nothing if another cluster has replaced it', async () => {
    const now = cluster({ pid: 300, since: 3000 });
    const failed = cluster({ status: 'failed', since: 2000, pid: null });
    for (const [act, shown] of [
      ['restart', failed],
      ['restart', cluster()],
      ['stop', cluster()]
    ] as const) {
      await actionsOn(() => new Response(JSON.stringify(now)))[act](shown);
      expect(model.clusters.get('kernel-1')).toEqual(now);
    }
    expect(requests).toEqual(['GET', 'GET', 'GET']);
  });

  it('uses the last known state if the cluster does not respond', async () => {
    const refuse = (request: IRequest) =>
      request.method === 'GET'
        ? new Response('{"message": "no"}', { status: 409 })
        : new Response(null, { status: 204 });
    const stopping = actionsOn(refuse).stop(cluster(state(3)));
    await dialogShown();
    await acceptDialog();
    await stopping;
    expect(requests).toEqual(['GET', 'DELETE']);
  });

  it('does not request the state of a cluster that is starting', async () => {
    await actionsOn(replyWith(3)).stop(
      cluster({ ...state(0), status: 'starting' })
    );
    expect(requests).toEqual(['DELETE']);
  });
});

describe('scaling a cluster', () => {
  /** Enter a number of workers; what the dialog says about it, and what was requested. */
  const enter = async (changes: Partial<ICluster>, workers: string) => {
    const bodies: unknown[] = [];
    const actions = actionsOn(({ body }) => {
      bodies.push(body);
      return new Response(JSON.stringify(cluster(changes)));
    });
    const scaling = actions.scale(cluster(changes));
    await dialogShown();
    await rendered();
    const input = document.querySelector<HTMLInputElement>(
      '.jp-Dialog input[type="number"]'
    );
    Object.getOwnPropertyDescriptor(
      HTMLInputElement.prototype,
      'value'
    )?.set?.call(input, workers);
    input?.dispatchEvent(new Event('input', { bubbles: true }));
    await acceptDialog();
    await rendered();
    const said = document.querySelector('.jp-Dialog')?.textContent;
    if (said) {
      await dismissDialog();
    }
    await scaling;
    return { said, bodies };
  };

  it('has at most one worker for each GPU of this machine that it has', async () => {
    const { said, bodies } = await enter({ gpus: ['GPU-0', 'GPU-1'] }, '3');
    expect(said).toContain('Enter a whole number from 1 to 2.');
    expect(bodies).toEqual([]);
  });

  it('has no such limit if its GPUs are those of other hosts', async () => {
    const { bodies } = await enter({ engine: 'cuda', gpus: [] }, '3');
    expect(bodies).toEqual([{ workers: 3 }]);
  });
});

describe('the options dialog, by keyboard', () => {
  const OFFER = offer();

  /** Press a key where the focus is; whether the browser does with it what it always does. */
  const press = (key: string, shiftKey = false): boolean =>
    document.activeElement?.dispatchEvent(
      new KeyboardEvent('keydown', {
        key,
        shiftKey,
        bubbles: true,
        cancelable: true
      })
    ) ?? false;

  let starting: Promise<void>;
  let panel: HTMLElement;
  let button: HTMLElement;

  beforeEach(async () => {
    panel = document.body.appendChild(document.createElement('div'));
    panel.tabIndex = 0;
    button = panel.appendChild(document.createElement('button'));
    button.focus();
    starting = actionsOn(
      ({ method }) =>
        new Response(method === 'GET' ? OFFER : JSON.stringify(cluster()))
    ).startWithOptions('kernel-1', 'analysis.ipynb');
    await dialogShown();
    await rendered();
  });

  afterEach(async () => {
    if (document.querySelector('.jp-Dialog')) {
      await dismissDialog();
    }
    await starting;
    panel.remove();
  });

  it.each([true, false])(
    'gives the focus back, also if the button is gone: %s',
    async isGone => {
      if (isGone) {
        button.remove();
      }
      document.querySelector<HTMLElement>('.jp-Dialog .jp-mod-accept')?.focus();
      press('Enter');
      await starting;
      expect(requests).toEqual(['GET', 'GET', 'POST']);
      expect(document.activeElement).toBe(isGone ? panel : button);
    }
  );

  it('goes round the fields and the buttons', () => {
    const first = document.querySelector('.jp-Dialog select');
    const last = document.querySelector<HTMLElement>(
      '.jp-Dialog .jp-mod-accept'
    );
    last?.focus();
    press('Tab');
    expect(document.activeElement).toBe(first);
    press('Tab', true);
    expect(document.activeElement).toBe(last);
  });

  it('copies the line with Enter', () => {
    document
      .querySelector<HTMLElement>('[aria-label="Copy the line"]')
      ?.focus();
    expect(press('Enter')).toBe(true);
    expect(requests).toEqual(['GET', 'GET']);
  });
});

describe('a refused start', () => {
  const OFFER = offer();
  const refusal = (field: string): string =>
    JSON.stringify({ message: 'It is not allowed:', fix: 'give less.', field });

  it('opens the options dialog with the reason at its field', async () => {
    const actions = actionsOn(({ method }) =>
      method === 'GET'
        ? new Response(OFFER)
        : new Response(refusal('threads'), { status: 422 })
    );
    const starting = actions.start('kernel-1', 'analysis.ipynb');
    await dialogShown();
    await rendered();
    const field = document.querySelector('[aria-invalid="true"]');
    expect(field?.parentElement?.textContent).toBe(
      'ThreadsIt is not allowed: give less.'
    );
    await dismissDialog();
    await starting;
    expect(requests).toEqual(['GET', 'POST', 'GET', 'GET']);
  });

  it('marks every field that was refused', async () => {
    const problem = (field: string): object => ({
      message: '',
      kind: 'SpecError',
      field,
      error: details({
        reason: '{option} is not allowed:',
        fix: 'give less.',
        fields: { option: `--${field}` },
        labels: { '--threads': 'Threads', '--pool': 'Memory pool' },
        field
      })
    });
    const refused = { ...problem('threads'), others: [problem('pool')] };
    const actions = actionsOn(({ method }) =>
      method === 'GET'
        ? new Response(OFFER)
        : new Response(JSON.stringify(refused), { status: 422 })
    );
    const starting = actions.start('kernel-1', 'analysis.ipynb');
    await dialogShown();
    await rendered();
    const alerts = document.querySelectorAll('[role="alert"]');
    expect(Array.from(alerts, node => node.textContent)).toEqual([
      'Threads is not allowed: give less.',
      // The dialog for a machine without a GPU has no field for it.
      'Memory pool is not allowed: give less.'
    ]);
    await dismissDialog();
    await starting;
  });

  it('shows an error if no option is the reason', async () => {
    // JupyterLab logs what it shows.
    const log = jest.spyOn(console, 'warn').mockReturnValue();
    const actions = actionsOn(({ method }) =>
      method === 'GET'
        ? new Response(OFFER)
        : new Response(refusal(''), { status: 409 })
    );
    const starting = actions.start('kernel-1', 'analysis.ipynb');
    await dialogShown();
    await rendered();
    expect(document.body.textContent).toContain(
      'The cluster could not be started'
    );
    await acceptDialog();
    await starting;
    log.mockRestore();
    expect(requests).toEqual(['GET', 'POST']);
  });

  it('starts a shared cluster, for which no line of a notebook is shown', async () => {
    const bodies: unknown[] = [];
    const actions = actionsOn(({ method, body }) => {
      bodies.push(...(method === 'POST' ? [body] : []));
      const started = cluster({ kernel_id: 'shared-1' });
      return new Response(method === 'POST' ? JSON.stringify(started) : OFFER);
    });
    const starting = actions.startWithOptions('', '');
    await dialogShown();
    await rendered();
    const { textContent } = document.querySelector('.jp-Dialog') ?? {};
    expect(textContent).toContain('Start a shared cluster');
    expect(textContent).not.toContain('In a notebook:');
    await acceptDialog();
    await starting;
    expect(bodies).toEqual([{ kernel_id: '', spec: expect.anything() }]);
    expect([...model.clusters.keys()]).toEqual(['shared-1']);
  });

  it('is not requested while all GPUs are reserved, unless it waits', async () => {
    const actions = actionsOn(() => new Response(OFFER));
    model.subscribe();
    const holders = [{ name: 'other.ipynb', kernel_id: 'b', share: false }];
    const gpus = [gpu({ holders })];
    FakeSocket.last.send({
      gpus: { gpus, waiting: [], reason: '', fix: '', error: null },
      clusters: []
    });
    const starting = actions.startWithOptions('kernel-1', 'analysis.ipynb');
    await dialogShown();
    await rendered();
    document.querySelector<HTMLElement>('.jp-mod-accept')?.click();
    await rendered();
    expect(document.querySelector('[role="alert"]')?.textContent).toBe(
      'All GPUs are reserved. Wait for them or share them, or run on the CPU.'
    );
    expect(requests).toEqual(['GET', 'GET']);
    await dismissDialog();
    await starting;
  });

  it('fills the refused options into the next dialog', async () => {
    const actions = actionsOn(() => new Response(OFFER));
    const refused = cluster({
      status: 'failed',
      workers_ready: 0,
      error: details({
        reason: '{--pool} 0.9 is more than there is.',
        labels: { '--pool': 'Memory pool' },
        field: 'pool'
      }),
      spec: { ...cluster().spec, pool: 0.9 }
    });
    model.subscribe();
    FakeSocket.last.send({
      gpus: { gpus: [gpu()], waiting: [], reason: '', fix: '', error: null },
      clusters: [refused]
    });
    const starting = actions.startWithOptions('kernel-1', 'analysis.ipynb');
    await dialogShown();
    await rendered();
    const field = document.querySelector('[aria-invalid="true"]');
    expect(field).toHaveProperty('value', '0.9');
    expect(field?.parentElement?.textContent).toBe(
      'Memory poolMemory pool 0.9 is more than there is.'
    );
    await dismissDialog();
    await starting;
  });
});
