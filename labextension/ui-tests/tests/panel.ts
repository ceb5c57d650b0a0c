import { APIRequestContext, expect, Locator, Page } from '@playwright/test';

/** The panel of the extension, wherever the page keeps it. */
export function gpuDaskPanel(page: Page): Locator {
  return page.locator('#jupyter-gpudask-panel');
}

/** Check that the panel shows both sections and, in the first, the GPUs. */
export async function expectBothSections(page: Page): Promise<void> {
  const region = gpuDaskPanel(page).getByRole('region', {
    name: 'GPU Dask',
    exact: true
  });
  await expect(region).toBeVisible();
  await expect(region.locator('.lm-AccordionPanel-titleLabel')).toHaveText([
    'GPUs',
    'Clusters'
  ]);
  await expect(
    region.getByRole('meter', { name: 'GPU 0 busy' })
  ).toHaveAttribute('aria-valuetext', '37 %');
  await expect(
    region.getByRole('meter', { name: 'GPU 1 memory' })
  ).toHaveAttribute('aria-valuetext', '1.0 of 140 GiB');
  await expect(region.getByText('pid 812')).toBeVisible();
}

/** Open the command palette and run the command with this label. */
export async function runFromPalette(page: Page, label: string): Promise<void> {
  // A page that still connects to its kernel takes the focus from a palette.
  await expect(async () => {
    await page.keyboard.press('Control+Shift+C');
    const search = page.getByPlaceholder('SEARCH', { exact: true });
    await search.fill(label, { timeout: 3000 });
    await page.getByRole('menuitem', { name: label }).click({ timeout: 3000 });
  }).toPass({ timeout: 30000 });
}

/** Without a kernelspec the page would ask for a kernel first. */
const METADATA = {
  kernelspec: {
    display_name: 'Python 3 (ipykernel)',
    language: 'python',
    name: 'python3'
  }
};

/** Put a notebook without cells on the server. */
export async function uploadNotebook(
  request: APIRequestContext,
  path: string
): Promise<void> {
  const content = {
    cells: [],
    metadata: METADATA,
    nbformat: 4,
    nbformat_minor: 5
  };
  const reply = await request.put(`/api/contents/${path}`, {
    data: { type: 'notebook', format: 'json', content }
  });
  expect(reply.ok()).toBe(true);
}

/** Wait until the notebook's kernel is there and idle. */
export async function expectIdleKernel(page: Page): Promise<void> {
  await expect(
    page.locator('.jp-Notebook-ExecutionIndicator[data-status="idle"]')
  ).toBeVisible({ timeout: 30000 });
}
