/**
 * Notifications of the desktop for long cells that end while the page is hidden.
 */
import { expect, galata, test } from '@jupyterlab/galata';
import { Locator, Page } from '@playwright/test';

import { expectIdleKernel, uploadNotebook } from './helpers';

/** What was shown, and where the clock of the page can be moved. */
interface IRecords {
  shown: { title: string; body?: string; click(): void }[];
  /** Milliseconds that the clock of the page is fast. */
  fast: number;
}

const CELL = 'import os, time\nwhile not os.path.exists("go"): time.sleep(0.1)';

test.use({
  autoGoto: false,
  mockSettings: {
    ...galata.DEFAULT_SETTINGS,
    'jupyter-gpudask:settings': { desktopNotifications: true }
  }
});

test.beforeEach(async ({ page, request, tmpPath }) => {
  // The browser decides about the permission; only what it would show is recorded.
  await page.addInitScript(() => {
    const records: IRecords = { shown: [], fast: 0 };
    const { now } = Date;
    Date.now = () => now() + records.fast;
    class Recorder extends EventTarget {
      static get permission(): NotificationPermission {
        return original.permission;
      }
      static requestPermission(): Promise<NotificationPermission> {
        return original.requestPermission();
      }
      onclick: (() => void) | null = null;
      constructor(title: string, options?: NotificationOptions) {
        super();
        const click = (): void => this.onclick?.();
        records.shown.push({ title, body: options?.body, click });
      }
      close(): void {
        // Nothing is shown.
      }
    }
    const original = window.Notification;
    Object.assign(window, { Notification: Recorder, records });
  });
  await uploadNotebook(request, `${tmpPath}/train.ipynb`, 'python3', '/', [
    CELL,
    CELL + '\nraise ValueError("no")'
  ]);
  await uploadNotebook(request, `${tmpPath}/other.ipynb`);
});

/** Hide the page, or show it, as another tab in front of it does. */
async function setHidden(page: Page, isHidden: boolean): Promise<void> {
  await page.evaluate(isHidden => {
    const state = isHidden ? 'hidden' : 'visible';
    for (const [name, value] of Object.entries({
      hidden: isHidden,
      visibilityState: state
    })) {
      Object.defineProperty(document, name, {
        get: () => value,
        configurable: true
      });
    }
    document.dispatchEvent(new Event('visibilitychange'));
  }, isHidden);
}

/** The notifications that were shown. */
async function shown(page: Page): Promise<string[]> {
  return page.evaluate(() =>
    (window as unknown as { records: IRecords }).records.shown.map(
      ({ title, body }) => `${title}. ${body}`
    )
  );
}

test('a cell of over a minute that ends while the page is hidden is reported by the desktop', async ({
  page,
  request,
  context,
  tmpPath
}) => {
  await context.grantPermissions(['notifications']);
  await page.goto();
  await page.notebook.openByPath(`${tmpPath}/train.ipynb`);
  await expectIdleKernel(page);

  /** Run a cell; it ends when so many seconds have passed on the clock of the page. */
  const runFor = async (index: number, seconds: number): Promise<void> => {
    const cell = await page.notebook.getCellLocator(index);
    const run = page.notebook.runCell(index, true);
    await expect(cell as Locator).toContainText('[*]:');
    await page.evaluate(seconds => {
      (window as unknown as { records: IRecords }).records.fast +=
        1000 * seconds;
    }, seconds);
    const go = `/api/contents/${tmpPath}/go`;
    await request.put(go, {
      data: { type: 'file', format: 'text', content: '' }
    });
    await run;
    await request.delete(go);
  };

  // Not while the page is visible, and not for a short cell.
  await runFor(0, 100);
  await setHidden(page, true);
  await runFor(0, 10);
  expect(await shown(page)).toEqual([]);

  await runFor(0, 125);
  await expect
    .poll(() => shown(page))
    .toEqual([
      expect.stringMatching(
        /^train.ipynb: a cell has finished. After 2 min \d+ s$/
      )
    ]);
  await runFor(1, 70);
  await expect
    .poll(async () => (await shown(page))[1])
    .toMatch(/^train.ipynb: a cell has failed. After 1 min \d+ s$/);

  // A click shows the notebook.
  await setHidden(page, false);
  await page.notebook.openByPath(`${tmpPath}/other.ipynb`);
  const tab = page.getByRole('tab', { name: 'train.ipynb' });
  await expect(tab).toHaveAttribute('aria-selected', 'false');
  await page.evaluate(() =>
    (window as unknown as { records: IRecords }).records.shown[0].click()
  );
  await expect(tab).toHaveAttribute('aria-selected', 'true');
});
