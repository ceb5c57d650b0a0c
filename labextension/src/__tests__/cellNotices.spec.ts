import { Notification as Toast } from '@jupyterlab/apputils';
import { INotebookTracker, Notebook } from '@jupyterlab/notebook';
import { nullTranslator } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';

import { Settings } from '../model/settings';
import { CellNotices } from '../notifications/notices';
import { IGpuDask } from '../tokens';
import { TestApp } from './app';

/** A notification of the desktop, as the browser has it. */
class FakeNotice {
  static permission: NotificationPermission;
  static answer: NotificationPermission;
  static requests: number;
  static shown: FakeNotice[];

  static async requestPermission(): Promise<NotificationPermission> {
    FakeNotice.requests += 1;
    FakeNotice.permission = FakeNotice.answer;
    return FakeNotice.permission;
  }

  onclick: (() => void) | null = null;
  isClosed = false;

  constructor(
    readonly title: string,
    readonly options: NotificationOptions
  ) {
    FakeNotice.shown.push(this);
  }

  close(): void {
    this.isClosed = true;
  }
}

const actions = {
  executionScheduled: new Signal<unknown, { notebook: Notebook; cell: object }>(
    {}
  ),
  executed: new Signal<
    unknown,
    { notebook: Notebook; cell: object; success: boolean }
  >({})
};
const notebook = {} as Notebook;
const panel = {
  id: 'panel-1',
  title: { label: 'train.ipynb' },
  content: notebook,
  context: { path: 'a/train.ipynb' }
};
let panels: (typeof panel)[];
const tracker = {
  find: (isMeant: (each: typeof panel) => boolean) => panels.find(isMeant)
} as unknown as INotebookTracker;
const activateById = jest.fn();
const source = {
  composite: { desktopNotifications: true },
  changed: new Signal<unknown, void>({})
};
let settings: Settings;
let notices: CellNotices;
let now: number;

beforeEach(async () => {
  Object.assign(FakeNotice, {
    permission: 'granted',
    answer: 'granted',
    requests: 0,
    shown: []
  });
  Object.assign(window, { Notification: FakeNotice });
  panels = [panel];
  now = 0;
  jest.spyOn(Date, 'now').mockImplementation(() => 1000 * now);
  jest.spyOn(document, 'hidden', 'get').mockReturnValue(true);
  settings = new Settings();
  notices = new CellNotices(
    {
      model: { settings },
      trans: nullTranslator.load('jupyter_gpudask')
    } as unknown as IGpuDask,
    tracker,
    { activateById } as unknown as TestApp['shell'],
    actions
  );
  source.composite = { desktopNotifications: true };
  settings.follow(source);
  await settings.ready;
  await Promise.resolve();
});

afterEach(() => {
  notices.dispose();
  Toast.dismiss();
  jest.restoreAllMocks();
});

/** What is loaded when it is first needed is loaded now. */
const loaded = (): Promise<void> =>
  new Promise(resolve => setTimeout(resolve, 20));

/** Run cells together, which end after these seconds. */
async function run(
  ...ends: { at: number; success?: boolean }[]
): Promise<void> {
  const cells = ends.map(() => ({}));
  cells.forEach(cell => actions.executionScheduled.emit({ notebook, cell }));
  ends.forEach(({ at, success = true }, index) => {
    now = at;
    actions.executed.emit({ notebook, cell: cells[index], success });
  });
  await loaded();
}

const shown = (): string[][] =>
  FakeNotice.shown.map(({ title, options }) => [title, options.body ?? '']);

describe('a notification of the desktop', () => {
  it('is shown for each long cell that ends while the page is hidden', async () => {
    await run(
      { at: 59 },
      { at: 184 },
      { at: 243 },
      { at: 3903, success: false }
    );
    expect(shown()).toEqual([
      ['train.ipynb: a cell has finished', 'After 2 min 5 s'],
      ['train.ipynb: a cell has failed', 'After 1 h 1 min']
    ]);
  });

  it('is not shown while the page is visible, or if the user has not enabled it', async () => {
    jest.spyOn(document, 'hidden', 'get').mockReturnValue(false);
    await run({ at: 100 });
    jest.spyOn(document, 'hidden', 'get').mockReturnValue(true);
    source.composite = { desktopNotifications: false };
    source.changed.emit();
    await run({ at: 300 });
    expect(shown()).toEqual([]);
  });

  it('shows the folder of a notebook if another one of its name is open', async () => {
    const other = { ...panel, content: {} as Notebook };
    panels = [other, panel];
    await run({ at: 100 });
    expect(FakeNotice.shown[0].title).toBe(
      'a/train.ipynb: a cell has finished'
    );
  });

  it('shows the notebook on a click', async () => {
    const focus = jest.spyOn(window, 'focus').mockReturnValue(undefined);
    await run({ at: 100 });
    FakeNotice.shown[0].onclick?.();
    expect(focus).toHaveBeenCalled();
    expect(activateById).toHaveBeenLastCalledWith('panel-1');
    expect(FakeNotice.shown[0].isClosed).toBe(true);
  });

  it('is preceded by a request for permission, once', async () => {
    FakeNotice.permission = FakeNotice.answer = 'default';
    await run({ at: 10 }, { at: 20 });
    expect(FakeNotice.requests).toBe(1);
    FakeNotice.answer = 'granted';
    source.composite = { desktopNotifications: false };
    source.changed.emit();
    source.composite = { desktopNotifications: true };
    source.changed.emit();
    await loaded();
    expect(FakeNotice.requests).toBe(2);
    await run({ at: 100 });
    expect(FakeNotice.shown).toHaveLength(1);
  });

  it('is replaced by a message in JupyterLab if the browser blocks it', async () => {
    FakeNotice.permission = 'denied';
    await run({ at: 100 });
    expect(shown()).toEqual([]);
    source.composite = { desktopNotifications: false };
    source.changed.emit();
    source.composite = { desktopNotifications: true };
    source.changed.emit();
    await loaded();
    expect(Toast.manager.notifications.map(each => each.message)).toEqual([
      expect.stringMatching(/^The browser blocks desktop notifications/)
    ]);
    expect(FakeNotice.requests).toBe(0);
  });
});
