/**
 * From the launcher to a cell on a cluster, its logs and its end, by keyboard alone: no test here uses the mouse.
 */
import { expect, test } from '@jupyterlab/galata';
import { Locator, Page } from '@playwright/test';

import {
  clusterCard,
  expectIdleKernel,
  gpuDaskPanel,
  logsTab
} from './helpers';

/** Far more than a page has elements that can be focused. */
const MAX_TABS = 200;

/** Press Tab until an element has the focus. */
async function tabTo(page: Page, target: Locator): Promise<void> {
  const isFocused = async (): Promise<boolean> =>
    target.evaluate(node => node === document.activeElement);
  for (let tabs = 0; tabs < MAX_TABS && !(await isFocused()); tabs += 1) {
    await page.keyboard.press('Tab');
  }
  await expect(target).toBeFocused();
}

/** Press the shortcut that moves the focus between panel and document, until it is there. */
async function moveFocusTo(page: Page, place: Locator): Promise<void> {
  await expect(async () => {
    await page.keyboard.press('Control+Alt+g');
    await expect(place.locator(':focus')).toHaveCount(1, { timeout: 10000 });
  }).toPass();
}

/** Press a button that Tab reaches. */
async function press(page: Page, button: Locator): Promise<void> {
  await tabTo(page, button);
  await page.keyboard.press('Enter');
}

test('a cluster is started, used, looked at and stopped', async ({ page }) => {
  const panel = gpuDaskPanel(page);
  const dialog = page.getByRole('dialog');
  const name = 'Untitled.ipynb';
  const card = clusterCard(page, name);

  await page.keyboard.press('Control+Shift+c');
  await expect(page.getByPlaceholder('SEARCH', { exact: true })).toBeFocused();
  await page.keyboard.type('New Notebook');
  await expect(
    page.locator('.lm-CommandPalette-item.lm-mod-active')
  ).toContainText('New Notebook');
  await page.keyboard.press('Enter');
  await expect(dialog.getByRole('button', { name: 'Select' })).toBeVisible();
  await page.keyboard.press('Enter');
  await expect(dialog).toBeHidden();
  await expectIdleKernel(page);

  await moveFocusTo(page, panel);
  await press(page, panel.getByRole('button', { name: `Options…: ${name}` }));
  await expect(dialog).toBeVisible();
  await tabTo(page, dialog.getByLabel('Runs on'));
  await page.keyboard.press('End');
  await expect(dialog.getByLabel('Runs on')).toHaveValue('cpu');
  await tabTo(page, dialog.getByLabel('Workers'));
  await page.keyboard.type('1');
  await page.keyboard.press('Enter');
  await expect(dialog).toBeHidden();
  await expect(card.getByText('ready')).toBeVisible();

  // Back to the notebook, whose cell is edited.
  await moveFocusTo(page, page.locator('.jp-Notebook'));
  await page.keyboard.press('Enter');
  await page.keyboard.type('%load_ext jupyter_gpudask');
  await page.keyboard.press('Shift+Enter');
  await expect(page.locator('.jp-Notebook .cm-content')).toHaveCount(2);
  await page.keyboard.type('%%gpudask\nimport dask.array as da\n');
  await page.keyboard.type('da.ones(3).sum().compute()');
  await page.keyboard.press('Shift+Enter');
  await expect(
    page.locator('.jp-OutputArea-executeResult').first()
  ).toContainText('3.0');

  await moveFocusTo(page, panel);
  await press(page, card.getByRole('button', { name: 'Logs' }));
  const logs = logsTab(page, name);
  await expect(logs).toContainText('Scheduler');
  await tabTo(page, logs.getByLabel('Search'));
  await page.keyboard.type('error');
  await expect(logs.getByLabel('Search')).toHaveValue('error');

  await moveFocusTo(page, panel);
  await press(page, card.getByRole('button', { name: 'Stop' }));
  await expect(card).toBeHidden();
});
