/**
 * The panel, its commands and its settings in JupyterLab, with the metrics of a real server.
 */
import { expect, galata, test } from '@jupyterlab/galata';

import {
  expectBothSections,
  gpuDaskPanel,
  layoutSaved,
  runFromPalette
} from './helpers';

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

test.use({
  mockSettings: {
    ...galata.DEFAULT_SETTINGS,
    'jupyter-gpudask:settings': { layouts: LAYOUTS }
  }
});

test('the panel opens from the launcher, the menu, the palette and by a shortcut, and is restored after a reload', async ({
  page
}) => {
  const panel = gpuDaskPanel(page);
  const card = page.locator('.jp-LauncherCard').filter({ hasText: 'GPU Dask' });
  await card.scrollIntoViewIfNeeded();
  await card.click();
  await expectBothSections(page);

  const close = async (): Promise<void> => {
    await page.sidebar.openTab('filebrowser');
    await expect(panel).toBeHidden();
  };
  await close();
  await page.menu.clickMenuItem('View>Show GPU Dask Panel');
  await expect(panel).toBeVisible();
  await close();
  await page.keyboard.press('Control+Alt+g');
  await expect(panel).toBeVisible();
  await close();

  await page.keyboard.press('Control+Shift+C');
  await page
    .getByPlaceholder('SEARCH', { exact: true })
    .fill('Show GPU Dask Panel');
  const line = page.locator('.lm-CommandPalette-item.lm-mod-active');
  await expect(line).toContainText('Show GPU Dask Panel');
  // The icon is inverted in the selected line.
  await expect(line.locator('svg [fill]').first()).toHaveCSS(
    'fill',
    'rgb(255, 255, 255)'
  );
  await page.keyboard.press('Escape');
  const saved = layoutSaved(page, layout =>
    layout.includes('"current":"jupyter-gpudask-panel"')
  );
  await runFromPalette(page, 'Show GPU Dask Panel');
  await saved;
  await page.reload({ waitForIsReady: false });
  await expectBothSections(page);
});

test('settings change the panel at once, and a change of one leaves the others', async ({
  page
}) => {
  await page.sidebar.openTab('jupyter-gpudask-panel');
  const panel = gpuDaskPanel(page);
  const memory = panel.getByRole('meter', { name: 'GPU 0 memory' });
  await expect(memory).toHaveAttribute('aria-valuetext', '1.0 of 140 GiB');

  // If no notebook is open, a button creates one.
  await panel.getByRole('button', { name: 'New notebook' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('button', { name: 'Select' }).click();
  await expect(panel).toContainText('has no cluster.');
  const start = panel.getByRole('button', { name: /^Start: / });
  await expect(start).toBeVisible();

  await page.menu.clickMenuItem('Settings>Settings Editor');
  const editor = page.getByRole('tabpanel', { name: 'Settings' });
  await editor.getByRole('tab', { name: 'GPU Dask', exact: true }).click();
  const form = editor.locator('.jp-SettingsPanel');
  await form.getByRole('combobox').first().selectOption('GB');
  await expect(memory).toHaveAttribute('aria-valuetext', '1.1 of 150 GB');
  await expect(panel.locator('.jp-GpuDask-sparkline')).toHaveCount(4);
  // The form saves all settings that it shows.
  const saved = page.waitForRequest(
    request =>
      request.method() === 'PUT' &&
      request.url().includes('jupyter-gpudask:settings') &&
      JSON.parse(request.postDataJSON().raw).showSparklines === false
  );
  await form.getByLabel('Show sparklines').uncheck();
  await expect(panel.locator('.jp-GpuDask-sparkline')).toHaveCount(0);
  const settings = JSON.parse((await saved).postDataJSON().raw);
  expect(settings).toMatchObject({ units: 'GB', layouts: LAYOUTS });
  expect(settings.layouts[0].plots).toEqual(LAYOUTS[0].plots);
  expect(Object.keys(settings.defaultLayout).sort()).toEqual([
    'gpu-memory',
    'progress',
    'task-stream'
  ]);
  await form.getByLabel('Show GPUs').uncheck();
  await expect(panel.locator('.lm-AccordionPanel-titleLabel')).toHaveText([
    'Clusters'
  ]);
  await page.getByRole('tab', { name: /^Untitled/ }).click();
  await expect(start).toBeVisible();
  await page.getByRole('tab', { name: 'Settings', exact: true }).click();
  await form.getByLabel('Offer to start clusters').uncheck();
  await expect(start).toBeHidden();
});
