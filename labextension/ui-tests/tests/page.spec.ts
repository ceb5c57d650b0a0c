/**
 * What the page has beside the panel: menus, shortcuts, the launcher, the panel of what is running, and settings.
 */
import { expect, test } from '@jupyterlab/galata';

import {
  clusterCard,
  expectBothSections,
  gpuDaskPanel,
  openAnalysis,
  startOnCpu
} from './panel';

test.describe.configure({ timeout: 120000 });

test('the launcher, the menu and a shortcut open the panel', async ({
  page
}, testInfo) => {
  const card = page.locator('.jp-LauncherCard').filter({ hasText: 'GPU Dask' });
  await card.scrollIntoViewIfNeeded();
  await page.screenshot({ path: testInfo.outputPath('launcher.png') });
  await card.click();
  await expectBothSections(page);

  await page.sidebar.openTab('filebrowser');
  await expect(gpuDaskPanel(page)).toBeHidden();
  await page.menu.clickMenuItem('View>Show GPU Dask panel');
  await expect(gpuDaskPanel(page)).toBeVisible();

  await page.sidebar.openTab('filebrowser');
  await page.keyboard.press('Control+Alt+g');
  await expect(gpuDaskPanel(page)).toBeVisible();
});

test.describe('with a cluster', () => {
  test.beforeEach(async ({ page, request, tmpPath }) => {
    await openAnalysis(page, request, tmpPath);
    await startOnCpu(page);
  });

  test('the code that gets the client is put below the active cell, and runs', async ({
    page
  }) => {
    await page.notebook.setCell(0, 'code', 'first = 1');
    await clusterCard(page)
      .getByRole('button', { name: 'Insert code' })
      .click();
    await expect.poll(() => page.notebook.getCellCount()).toBe(2);
    expect(await page.notebook.getCellTextInput(1)).toContain(
      'client = cluster.client'
    );
    await page.notebook.addCell(
      'code',
      'len(client.scheduler_info()["workers"])'
    );
    await page.notebook.runCell(1);
    await page.notebook.runCell(2);
    await expect(
      page.locator('.jp-Notebook .jp-OutputArea-output').last()
    ).toContainText('2');
  });

  test('it is among what is running, and stopped there', async ({
    page
  }, testInfo) => {
    await page.sidebar.openTab('jp-running-sessions');
    const item = page
      .locator('.jp-RunningSessions-section')
      .filter({ hasText: 'CPU stand-in' })
      .locator('.jp-RunningSessions-item');
    await expect(item).toContainText('analysis.ipynb');
    await page.screenshot({ path: testInfo.outputPath('running.png') });
    await item.getByText('analysis.ipynb').click();
    await expect(clusterCard(page)).toBeVisible();

    await page.sidebar.openTab('jp-running-sessions');
    await item.hover();
    await item.getByTitle('Stop Cluster').click();
    await expect(item).toBeHidden({ timeout: 20000 });
  });

  test('it is in the menu of the kernel, and stopped by a shortcut', async ({
    page
  }, testInfo) => {
    await page.menu.openLocator('Kernel>GPU Dask Cluster');
    await page.screenshot({ path: testInfo.outputPath('menu.png') });
    await page.menu.clickMenuItem(
      'Kernel>GPU Dask Cluster>Show Logs of Cluster'
    );
    const dialog = page.getByRole('dialog');
    await expect(dialog).toContainText('Scheduler');
    await dialog.getByRole('button', { name: 'Close' }).click();
    await expect(dialog).toBeHidden();

    await page.keyboard.press('Control+Alt+Shift+x');
    await expect(clusterCard(page)).toBeHidden({ timeout: 20000 });
  });
});

for (const theme of ['JupyterLab Light', 'JupyterLab Dark']) {
  test(`a narrow panel has room for all that a cluster offers: ${theme}`, async ({
    page,
    request,
    tmpPath
  }, testInfo) => {
    await page.theme.setTheme(theme);
    await openAnalysis(page, request, tmpPath);
    await startOnCpu(page);
    await page.sidebar.setWidth(220, 'left');
    const card = clusterCard(page);
    const { x, width } = (await card.boundingBox()) ?? { x: 0, width: 0 };
    for (const button of await card.getByRole('button').all()) {
      const box = await button.boundingBox();
      expect((box?.x ?? 0) + (box?.width ?? 0)).toBeLessThanOrEqual(x + width);
    }
    await page.screenshot({ path: testInfo.outputPath('narrow.png') });
  });
}
