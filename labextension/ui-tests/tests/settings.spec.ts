/**
 * The settings in the Settings Editor.
 */
import { expect, galata, test } from '@jupyterlab/galata';

import { clusterCard, gpuDaskPanel, openAnalysis } from './helpers';

test('settings change the panel at once', async ({ page }, testInfo) => {
  await page.sidebar.openTab('jupyter-gpudask-panel');
  const panel = gpuDaskPanel(page);
  const memory = panel.getByRole('meter', { name: 'GPU 0 memory' });
  await expect(memory).toHaveAttribute('aria-valuetext', '1.0 of 140 GiB');

  await page.menu.clickMenuItem('Settings>Settings Editor');
  const editor = page.getByRole('tabpanel', { name: 'Settings' });
  await editor.getByRole('tab', { name: 'GPU Dask', exact: true }).click();
  const form = editor.locator('.jp-SettingsPanel');
  await form.getByRole('combobox').first().selectOption('GB');
  await expect(memory).toHaveAttribute('aria-valuetext', '1.1 of 150 GB');
  await expect(panel.locator('.jp-GpuDask-sparkline')).toHaveCount(4);
  await form.getByLabel('Show sparklines').uncheck();
  await expect(panel.locator('.jp-GpuDask-sparkline')).toHaveCount(0);
  await page.screenshot({ path: testInfo.outputPath('settings.png') });
  await form.getByLabel('Show GPUs').uncheck();
  await expect(panel.locator('.lm-AccordionPanel-titleLabel')).toHaveText([
    'Clusters'
  ]);

  await page.notebook.createNew();
  const start = panel.getByRole('button', { name: /^Start: / });
  await expect(start).toBeVisible();
  await page.getByRole('tab', { name: 'Settings', exact: true }).click();
  await form.getByLabel('Offer to start clusters').uncheck();
  await expect(start).toBeHidden();
  await page.screenshot({ path: testInfo.outputPath('no-start.png') });
});

test.describe('with a cluster for each notebook', () => {
  test.use({
    mockSettings: {
      ...galata.DEFAULT_SETTINGS,
      'jupyter-gpudask:settings': { autostart: true }
    }
  });

  test('a notebook gets a cluster without a click', async ({
    page,
    request,
    tmpPath
  }) => {
    await openAnalysis(page, request, tmpPath);
    await expect(clusterCard(page).getByText('ready')).toBeVisible();
  });
});
