import { expect, test } from '@playwright/test';

import {
  chooseTheme,
  clusterCard,
  expectBothSections,
  expectIdleKernel,
  gpuDaskPanel,
  runFromPalette,
  uploadNotebook
} from './helpers';
import { playScene } from './mockStream';

const NOTEBOOK = 'gpudask-panel.ipynb';

test.describe('in a Notebook 7 notebook', () => {
  test.beforeEach(async ({ page, request }) => {
    await uploadNotebook(request, NOTEBOOK);
    await page.goto(`/notebooks/${NOTEBOOK}`);
    // A page that still connects to its kernel takes the focus from a menu.
    await expectIdleKernel(page);
  });

  test.afterEach(async ({ request }) => {
    await request.delete(`/api/contents/${NOTEBOOK}`);
  });

  test('the panel opens by View > Left Sidebar', async ({ page }, testInfo) => {
    await page.getByRole('menuitem', { name: 'View', exact: true }).click();
    // An item that opens a submenu has no role.
    await page.locator('.lm-Menu-item', { hasText: 'Left Sidebar' }).hover();
    await page.locator('.lm-Menu-item', { hasText: 'Show GPU Dask' }).click();

    await expectBothSections(page);
    await page.screenshot({ path: testInfo.outputPath('notebook.png') });
  });

  test('the panel stays open or closed when the page is reloaded, and leaves the focus alone', async ({
    page
  }) => {
    await runFromPalette(page, 'Show GPU Dask Panel');
    await expectBothSections(page);
    await page.reload();
    await expectBothSections(page);
    await expectIdleKernel(page);
    await expect(gpuDaskPanel(page).locator(':focus')).toHaveCount(0);

    await page
      .getByRole('button', { name: 'Collapse left side panel' })
      .click();
    await expect(gpuDaskPanel(page)).toBeHidden();
    await page.reload();
    await expectIdleKernel(page);
    await expect(gpuDaskPanel(page)).toBeHidden();
  });

  test('the toolbar has the button of the notebook’s cluster', async ({
    page
  }) => {
    await page
      .locator('.jp-GpuDask-toolbarButton')
      .getByRole('button', { name: 'Cluster of this notebook: off' })
      .click();
    await page.getByRole('menuitem', { name: 'Show GPU Dask Panel' }).click();

    await expectBothSections(page);
    await expect(
      gpuDaskPanel(page).getByText(`${NOTEBOOK} has no cluster.`)
    ).toBeVisible();
  });

  test('the panel and the history open from the palette, and follow the theme', async ({
    page
  }, testInfo) => {
    await expect(gpuDaskPanel(page)).toBeHidden();
    await runFromPalette(page, 'Show GPU Dask Panel');
    await expectBothSections(page);
    await runFromPalette(page, 'Show GPU History');
    // Below the notebook.
    await expect(
      page
        .locator('#jupyter-gpudask-history')
        .getByRole('img', { name: 'GPUs: Busy' })
    ).toBeInViewport();
    await page.screenshot({ path: testInfo.outputPath('light.png') });
    const parts = [
      gpuDaskPanel(page),
      page.locator('#jupyter-gpudask-history')
    ];
    const colours = async () =>
      Promise.all(
        parts.map(async part =>
          part.evaluate(node => getComputedStyle(node).color)
        )
      );
    const light = await colours();
    await chooseTheme(page, 'JupyterLab Dark');
    try {
      await expect.poll(colours).not.toEqual(light);
      const dark = await colours();
      expect(dark.every((colour, i) => colour !== light[i])).toBe(true);
      await expect(parts[1].getByRole('img').first()).toBeVisible();
      await page.screenshot({ path: testInfo.outputPath('dark.png') });
    } finally {
      // The server keeps it, and the other tests have the same server.
      await chooseTheme(page, 'JupyterLab Light');
      await expect.poll(colours).toEqual(light);
    }
  });
});

test('the name of a cluster opens its notebook in a new tab', async ({
  page,
  request
}) => {
  await uploadNotebook(request, 'train.ipynb');
  await playScene(page, { gpus: 2, workers: 2 });
  await page.goto('/tree');
  await runFromPalette(page, 'Show GPU Dask Panel');
  const opened = page.waitForEvent('popup');
  await clusterCard(page, 'train.ipynb')
    .getByRole('button', { name: 'train.ipynb', exact: true })
    .press('Enter');
  expect((await opened).url()).toContain('/notebooks/train.ipynb');
  await request.delete('/api/contents/train.ipynb');
});

test('the panel opens from the palette of the Notebook 7 tree', async ({
  page
}, testInfo) => {
  await page.goto('/tree');
  await expect(
    page.locator('.jp-FileBrowser-listing, .jp-DirListing').first()
  ).toBeVisible();

  await runFromPalette(page, 'Show GPU Dask Panel');

  await expectBothSections(page);
  await page.screenshot({ path: testInfo.outputPath('tree.png') });
});
