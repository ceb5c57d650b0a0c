import { expect, Locator, Page } from '@playwright/test';

/** The panel of the extension, wherever the page keeps it. */
export function gpuDaskPanel(page: Page): Locator {
  return page.locator('#jupyter-gpudask-panel');
}

/** Check that the panel shows both sections and how to start. */
export async function expectBothSections(page: Page): Promise<void> {
  const region = gpuDaskPanel(page).getByRole('region', {
    name: 'GPU Dask',
    exact: true
  });
  await expect(region).toBeVisible();
  await expect(region.locator('.lm-AccordionPanel-title')).toHaveText([
    'GPUs',
    'Clusters'
  ]);
  await expect(region.getByText('%gpudask gpus')).toHaveCount(1);
  await expect(region.getByText('%gpudask start')).toHaveCount(1);
  for (const code of await region.locator('pre').all()) {
    await expect(code).toBeInViewport({ ratio: 1 });
  }
}

/** Open the command palette and run the command with this label. */
export async function runFromPalette(page: Page, label: string): Promise<void> {
  await page.keyboard.press('Control+Shift+C');
  await page.getByPlaceholder('SEARCH', { exact: true }).fill(label);
  await page.getByRole('menuitem', { name: label }).click();
}
