/**
 * A cluster that belongs to no kernel, and that notebooks share.
 */
import { expect, test } from '@jupyterlab/galata';
import { Locator } from '@playwright/test';

import {
  chooseAction,
  clusterCard,
  expectIdleKernel,
  gpuDaskPanel,
  openAnalysis,
  picture,
  setCode,
  uploadNotebook
} from './helpers';

test.afterEach(async ({ request }) => {
  await request.delete('/gpudask/api/clusters/shared-1');
});

test('two notebooks use a shared cluster, which is started and scaled in the panel', async ({
  page,
  request,
  tmpPath
}, testInfo) => {
  test.slow();
  const panel = gpuDaskPanel(page);
  const shared = panel.getByRole('listitem', { name: 'Shared cluster 1' });
  const look = (name: string): Promise<void> => picture(page, testInfo, name);
  /** The entry of the visible notebook's toolbar button that uses the shared cluster, or no longer. */
  const use = async (): Promise<Locator> => {
    // Its role depends on whether it is checked.
    const entry = page.locator('.lm-Menu-item', {
      hasText: 'Use Shared cluster 1'
    });
    await expect(async () => {
      await page.keyboard.press('Escape');
      // Its name is what the cluster does.
      await page
        .locator('.jp-GpuDask-toolbarButton:visible')
        .click({ timeout: 10000 });
      await expect(entry).toBeVisible({ timeout: 5000 });
    }).toPass();
    return entry;
  };
  await uploadNotebook(request, `${tmpPath}/other.ipynb`);
  await page.notebook.openByPath(`${tmpPath}/other.ipynb`);
  await expectIdleKernel(page);
  await openAnalysis(page, request, tmpPath);
  await panel.getByTitle('Start a cluster').click();
  await page.getByRole('menuitem', { name: 'Start Shared Cluster…' }).click();
  const dialog = page.getByRole('dialog');
  await expect(dialog).toContainText('Start a shared cluster');
  await expect(dialog).not.toContainText('In a notebook:');
  await look('dialog');
  await dialog.getByLabel('Runs on').selectOption('cpu');
  await dialog.getByLabel('Workers').fill('1');
  await dialog.getByRole('button', { name: 'Start' }).click();
  await expect(shared).toContainText('CPU cluster');
  await expect(shared).toContainText('idle');

  await chooseAction(shared, 'Scale Cluster…');
  await dialog.getByLabel('Workers').fill('2');
  await dialog.getByRole('button', { name: 'Scale' }).click();
  await expect(dialog).toBeHidden();

  await look('before-use');
  const useInPanel = { name: 'Use Shared cluster 1: analysis.ipynb' };
  await panel.getByRole('button', useInPanel).click();
  await expect(clusterCard(page)).toContainText('Shared cluster 1');
  await page.activity.activateTab('other.ipynb');
  const entry = await use();
  await look('menu-of-notebook');
  await entry.click();
  await expect(clusterCard(page, 'other.ipynb')).toContainText('connected');
  await setCode(
    page,
    0,
    '%%gpudask\nimport dask.array as da\nfloat(da.ones(30, chunks=3).sum().compute())'
  );
  await page.notebook.runCell(0);
  await expect(
    page.locator('.jp-OutputArea-executeResult').getByText('30.0')
  ).toBeVisible();
  await look('used');

  await (await use()).click();
  await expect(clusterCard(page, 'other.ipynb')).toBeHidden();
  await chooseAction(shared, 'Stop Cluster');
  const question = dialog.getByRole('button', { name: 'Stop' });
  await question.or(panel.getByText('has no cluster')).first().waitFor();
  if (await question.isVisible()) {
    await question.click();
  }
  await expect(shared).toBeHidden();
});
