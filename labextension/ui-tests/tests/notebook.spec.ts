import { APIRequestContext, expect, test } from '@playwright/test';

import { expectBothSections, gpuDaskPanel, runFromPalette } from './panel';

const NOTEBOOK = 'gpudask-panel.ipynb';

/** Without a kernelspec the page would ask for a kernel first. */
const CONTENT = {
  cells: [],
  metadata: {
    kernelspec: {
      display_name: 'Python 3 (ipykernel)',
      language: 'python',
      name: 'python3'
    }
  },
  nbformat: 4,
  nbformat_minor: 5
};

async function upload(request: APIRequestContext): Promise<void> {
  const reply = await request.put(`/api/contents/${NOTEBOOK}`, {
    data: { type: 'notebook', format: 'json', content: CONTENT }
  });
  expect(reply.ok()).toBe(true);
}

test.describe('in a Notebook 7 notebook', () => {
  test.beforeEach(async ({ page, request }) => {
    await upload(request);
    await page.goto(`/notebooks/${NOTEBOOK}`);
    // A page that still connects to its kernel takes the focus from a menu.
    await expect(
      page.locator('.jp-Notebook-ExecutionIndicator[data-status="idle"]')
    ).toBeVisible();
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

  test('the panel opens from the palette', async ({ page }) => {
    await expect(gpuDaskPanel(page)).toBeHidden();

    await runFromPalette(page, 'Show GPU Dask panel');

    await expectBothSections(page);
  });
});

test('the panel opens from the palette of the Notebook 7 tree', async ({
  page
}, testInfo) => {
  await page.goto('/tree');
  await expect(
    page.locator('.jp-FileBrowser-listing, .jp-DirListing').first()
  ).toBeVisible();

  await runFromPalette(page, 'Show GPU Dask panel');

  await expectBothSections(page);
  await page.screenshot({ path: testInfo.outputPath('tree.png') });
});
