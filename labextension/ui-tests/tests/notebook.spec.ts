/**
 * The panel and a cluster in Notebook 7.
 */
import { expect, test } from '@playwright/test';

import {
  brightness,
  chooseAction,
  chooseTheme,
  clusterCard,
  expectBothSections,
  expectIdleKernel,
  gpuDaskPanel,
  INVERTED,
  logsTab,
  runFromPalette,
  startOnCpu,
  uploadNotebook
} from './helpers';

test.afterEach(async ({ request }) => {
  const sessions = await (await request.get('/api/sessions')).json();
  for (const { kernel, path } of sessions) {
    if (path === 'analysis.ipynb') {
      await request.delete(`/api/kernels/${kernel.id}`);
      await request.delete(`/api/contents/${path}`);
    }
  }
});

test('in a notebook, the panel opens from the menu, the toolbar and the palette, stays as it was after a reload, and follows the theme with the history', async ({
  page,
  request
}) => {
  await uploadNotebook(request, 'analysis.ipynb');
  await page.goto('/notebooks/analysis.ipynb');
  // A page that still connects to its kernel takes the focus from a menu.
  await expectIdleKernel(page);
  const panel = gpuDaskPanel(page);
  const collapse = page.getByRole('button', {
    name: 'Collapse left side panel'
  });
  await page.getByRole('menuitem', { name: 'View', exact: true }).click();
  // An item that opens a submenu has no role.
  await page.locator('.lm-Menu-item', { hasText: 'Left Sidebar' }).hover();
  await page.locator('.lm-Menu-item', { hasText: 'Show GPU Dask' }).click();
  await expectBothSections(page);
  await collapse.click();
  await page
    .locator('.jp-GpuDask-toolbarButton')
    .getByRole('button', { name: 'Cluster of this notebook: off' })
    .click();
  await page.getByRole('menuitem', { name: 'Show GPU Dask Panel' }).click();
  await expect(panel.getByText('analysis.ipynb has no cluster.')).toBeVisible();

  await page.reload();
  await expectBothSections(page);
  await expectIdleKernel(page);
  await expect(panel.locator(':focus')).toHaveCount(0);
  await collapse.click();
  await expect(panel).toBeHidden();
  await page.reload();
  await expectIdleKernel(page);
  await expect(panel).toBeHidden();

  await runFromPalette(page, 'Show GPU Dask Panel');
  await runFromPalette(page, 'Show GPU History');
  const history = page.locator('#jupyter-gpudask-history');
  // Below the notebook.
  const chart = history.getByRole('img', { name: 'GPUs: Busy' });
  await expect(chart).toBeInViewport();
  const colors = (): Promise<string[]> =>
    Promise.all(
      [panel, history].map(part =>
        part.evaluate(node => getComputedStyle(node).color)
      )
    );
  const light = await colors();
  await chooseTheme(page, 'JupyterLab Dark');
  try {
    await expect
      .poll(async () => (await colors()).every((each, i) => each !== light[i]))
      .toBe(true);
  } finally {
    // The server keeps it, and the other tests have the same server.
    await chooseTheme(page, 'JupyterLab Light');
  }
  await expect.poll(colors).toEqual(light);
});

test('a cluster is started, looked at, scaled, used and stopped in the tab Running', async ({
  page,
  request
}) => {
  await uploadNotebook(request, 'analysis.ipynb');
  await page.goto('/notebooks/analysis.ipynb');
  await expectIdleKernel(page);
  await runFromPalette(page, 'Show GPU Dask Panel');
  await startOnCpu(page);
  const card = clusterCard(page);
  await card.getByRole('button', { name: 'Logs' }).click();
  await expect(logsTab(page)).toContainText('Scheduler');

  // Dask's pages are opened with the theme of the notebook.
  try {
    for (const isDark of [false, true]) {
      await chooseTheme(page, `JupyterLab ${isDark ? 'Dark' : 'Light'}`);
      const opened = page.context().waitForEvent('page');
      await card.getByRole('button', { name: 'Plots: analysis.ipynb' }).click();
      const dashboard = await opened;
      await expect(dashboard.locator('canvas').first()).toBeVisible();
      await expect(dashboard.locator('html')).toHaveCSS(
        'filter',
        isDark ? INVERTED : 'none'
      );
      await expect
        .poll(async () => (await brightness(dashboard)) < 0.3)
        .toBe(isDark);
      await dashboard.close();
    }
  } finally {
    await chooseTheme(page, 'JupyterLab Light');
  }

  await chooseAction(card, 'Scale Cluster');
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('spinbutton', { name: 'Workers' }).fill('1');
  await dialog.getByRole('button', { name: 'Scale' }).click();
  await expect(
    card.getByRole('list', { name: 'Workers' }).getByRole('listitem')
  ).toHaveCount(1);

  const cells = page.locator('.jp-Notebook .jp-Cell');
  const before = await cells.count();
  await chooseAction(card, 'Insert Dask Client Code');
  await expect(cells).toHaveCount(before + 1);
  await expect(cells.last()).toContainText('client = cluster.client');

  await page.goto('/tree');
  // The list of a tab that is opened before it is drawn for the first time stays as it was until a cluster changes.
  await expect(page.locator('.jp-DirListing-content')).toContainText(
    'analysis.ipynb'
  );
  await page.getByRole('tab', { name: 'Running' }).click();
  const item = page
    .locator('.jp-RunningSessions-section')
    .filter({ hasText: 'CPU cluster' })
    .locator('.jp-RunningSessions-item');
  await expect(item).toContainText('analysis.ipynb');
  await item.hover();
  await item.getByTitle('Stop Cluster').click();
  await expect(item).toBeHidden();
});
