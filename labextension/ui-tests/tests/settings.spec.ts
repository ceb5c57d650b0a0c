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

const LAYOUTS = [
  {
    name: 'Mine',
    plots: {
      cpu: { mode: 'split-right', ref: null },
      progress: { mode: 'split-bottom', ref: 'cpu' }
    }
  },
  { name: 'Two', plots: { status: { mode: 'split-right', ref: null } } }
];

test.describe('with layouts of plots', () => {
  test.use({
    mockSettings: {
      ...galata.DEFAULT_SETTINGS,
      'jupyter-gpudask:settings': { layouts: LAYOUTS }
    }
  });

  test('a change of another setting leaves them as they are', async ({
    page
  }, testInfo) => {
    await page.menu.clickMenuItem('Settings>Settings Editor');
    const editor = page.getByRole('tabpanel', { name: 'Settings' });
    await editor.getByRole('tab', { name: 'GPU Dask', exact: true }).click();
    const form = editor.locator('.jp-SettingsPanel');
    // The form saves all settings that it shows.
    const saved = page.waitForRequest(
      request =>
        request.method() === 'PUT' &&
        request.url().includes('jupyter-gpudask:settings')
    );
    await form.getByLabel('Show sparklines').uncheck();
    const settings = JSON.parse((await saved).postDataJSON().raw);
    expect(settings).toMatchObject({ showSparklines: false, layouts: LAYOUTS });
    expect(settings.layouts[0].plots).toEqual(LAYOUTS[0].plots);
    expect(Object.keys(settings.defaultLayout).sort()).toEqual([
      'gpu-memory',
      'progress',
      'task-stream'
    ]);
    await form
      .getByRole('button', { name: 'Add' })
      .last()
      .scrollIntoViewIfNeeded();
    await page.screenshot({ path: testInfo.outputPath('layouts.png') });
  });
});
