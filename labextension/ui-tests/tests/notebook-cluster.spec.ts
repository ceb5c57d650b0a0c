/**
 * A cluster in Notebook 7.
 */
import { expect, test } from '@playwright/test';

import {
  chooseAction,
  clusterCard,
  expectIdleKernel,
  gpuDaskPanel,
  logsTab,
  runFromPalette,
  startOnCpu,
  uploadNotebook
} from './helpers';

test.afterEach(async ({ request }) => {
  const sessions = await (await request.get('/api/sessions')).json();
  for (const { kernel } of sessions) {
    await request.delete(`/api/kernels/${kernel.id}`);
  }
  await request.delete('/api/contents/analysis.ipynb');
});

test('a cluster is started, scaled, used and listed in the tab Running', async ({
  page,
  request
}, testInfo) => {
  await uploadNotebook(request, 'analysis.ipynb');
  await page.goto('/notebooks/analysis.ipynb');
  await expectIdleKernel(page);
  await runFromPalette(page, 'Show GPU Dask Panel');
  await startOnCpu(page);
  const card = clusterCard(page);

  await card.getByRole('button', { name: 'Logs' }).click();
  const logs = logsTab(page);
  await expect(logs).toContainText('Scheduler');
  await expect(logs.getByLabel('Search')).toBeVisible();
  await page.screenshot({ path: testInfo.outputPath('logs.png') });

  await chooseAction(card, 'Scale Cluster');
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('spinbutton', { name: 'Workers' }).fill('1');
  await page.screenshot({ path: testInfo.outputPath('scale.png') });
  await dialog.getByRole('button', { name: 'Scale' }).click();
  await expect(
    card.getByRole('list', { name: 'Workers' }).getByRole('listitem')
  ).toHaveCount(1);

  const cells = page.locator('.jp-Notebook .jp-Cell');
  const before = await cells.count();
  await chooseAction(card, 'Insert Dask Client Code');
  await expect(cells).toHaveCount(before + 1);
  await expect(cells.last()).toContainText('client = cluster.client');
  await page.screenshot({ path: testInfo.outputPath('inserted.png') });

  await page.goto('/tree');
  // The list of a tab that is opened before it is drawn for the first time stays as it was until a cluster changes.
  await expect(page.locator('.jp-DirListing-content')).toContainText(
    'analysis.ipynb'
  );
  await page.getByRole('tab', { name: 'Running' }).click();
  const item = page
    .locator('.jp-RunningSessions-section')
    .filter({ hasText: 'CPU stand-in' })
    .locator('.jp-RunningSessions-item');
  await expect(item).toContainText('analysis.ipynb');
  await page.screenshot({ path: testInfo.outputPath('running.png') });
  await item.hover();
  await item.getByTitle('Stop Cluster').click();
  await expect(item).toBeHidden();
  await expect(gpuDaskPanel(page)).toBeHidden();
});
