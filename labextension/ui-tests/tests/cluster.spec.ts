/**
 * The life of a cluster in the panel, with a real server, kernel and cluster; only the GPUs are simulated.
 */
import { expect, test } from '@jupyterlab/galata';

import {
  chooseAction,
  clusterCard,
  gpuDaskPanel,
  layoutSaved,
  openAnalysis,
  submitTasks
} from './helpers';

test.beforeEach(async ({ page, request, tmpPath }) => {
  await openAnalysis(page, request, tmpPath);
});

test('a cluster on the CPU is started with options, monitored and stopped', async ({
  page
}, testInfo) => {
  const panel = gpuDaskPanel(page);
  await panel.getByRole('button', { name: 'Options…: analysis.ipynb' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Runs on').selectOption('cpu');
  await dialog.getByLabel('Threads').fill('many');
  await dialog.getByLabel('Host memory').fill('lots');
  await expect(dialog.locator('code')).toHaveText(
    '%gpudask start --engine cpu --memory-limit lots --threads many'
  );
  const form = dialog.locator('.jp-GpuDask-form');
  const before = await form.boundingBox();
  await dialog.getByRole('button', { name: 'Start' }).click();
  await expect(dialog.getByRole('alert')).toContainText([
    "Host memory 'lots' is not allowed",
    "Threads 'many' is not allowed: give a whole number from 1 to 256"
  ]);
  expect((await form.boundingBox())?.height).toBe(before?.height);
  await expect(dialog.getByLabel('Threads')).toHaveAttribute(
    'aria-invalid',
    'true'
  );
  await page.screenshot({ path: testInfo.outputPath('refused.png') });

  await dialog.getByLabel('Threads').fill('1');
  await dialog.getByLabel('Host memory').fill('');
  await dialog.getByLabel('Workers').fill('2');
  await dialog.getByRole('button', { name: 'Start' }).click();
  await expect(dialog).toBeHidden();
  const card = panel.getByRole('listitem', {
    name: 'Cluster of analysis.ipynb'
  });
  await expect(card.getByText('ready')).toBeVisible();
  await expect(
    card.getByRole('list', { name: 'Workers' }).getByRole('listitem')
  ).toHaveCount(2);
  const button = page
    .locator('.jp-GpuDask-toolbarButton')
    .getByRole('button', { name: 'CPU stand-in' });
  await expect(button).toBeVisible();

  await submitTasks(page, 9);
  await expect(card.getByText('2 running, 7 waiting')).toBeVisible();
  await page.screenshot({ path: testInfo.outputPath('busy.png') });

  await card.getByRole('button', { name: 'Stop' }).click();
  await expect(dialog).toContainText('9 tasks are not finished');
  await dialog.getByRole('button', { name: 'Stop' }).click();
  await expect(card).toBeHidden();
  await expect(panel.getByText('analysis.ipynb has no cluster.')).toBeVisible();
  await expect(button).toBeHidden();
});

test('a cluster on both GPUs is started from the toolbar and shows its dashboard', async ({
  page
}, testInfo) => {
  const toolbar = page.locator('.jp-GpuDask-toolbarButton');
  // A page that still connects to its kernel takes the focus from a menu.
  await expect(async () => {
    await toolbar.getByRole('button').click({ timeout: 10000 });
    await page
      .getByRole('menuitem', { name: 'Start Cluster', exact: true })
      .click({ timeout: 10000 });
  }).toPass();
  await expect(toolbar.getByRole('button', { name: '2 × H200' })).toBeVisible();

  const panel = gpuDaskPanel(page);
  await expect(
    panel.getByRole('button', { name: 'GPU 1: analysis.ipynb' })
  ).toBeVisible();
  await expect(page.locator('.jp-GpuDask-statusItem')).toHaveText(
    '2 GPUs 37 % busy, 2.0 of 280 GiB'
  );
  await page.screenshot({ path: testInfo.outputPath('ready.png') });

  await page.sidebar.openTab('filebrowser');
  await expect(panel).toBeHidden();
  await page.locator('.jp-GpuDask-statusItem').click();
  await expect(panel).toBeVisible();

  // With the dashboard and the plot.
  const saved = layoutSaved(
    page,
    layout => layout.split('jupyter-gpudask-dashboards:').length > 2
  );
  await chooseAction(clusterCard(page), 'Open Dask Dashboard');
  const dashboard = page.frameLocator('iframe[title="Dask: analysis.ipynb"]');
  await expect(dashboard.locator('canvas').first()).toBeVisible();

  await panel.getByRole('button', { name: 'Choose a plot' }).click();
  await page.screenshot({ path: testInfo.outputPath('plots.png') });
  await page.getByPlaceholder('Search the plots').fill('task str');
  await page.keyboard.press('Enter');
  const plot = page.frameLocator('iframe[title="Task Stream: analysis.ipynb"]');
  await expect(plot.locator('canvas').first()).toBeVisible();
  await saved;
  await page.reload({ waitForIsReady: false });
  await expect(plot.locator('canvas').first()).toBeVisible();
  await expect(
    page.getByRole('tab', { name: 'Dask: analysis.ipynb' })
  ).toBeVisible();

  await panel.getByRole('button', { name: 'Stop' }).click();
  await expect(panel.getByText('has no cluster.')).toBeVisible();
  // What is left of the plot is a picture of the past, and said to be.
  const notice = page.getByText('The cluster of analysis.ipynb is closed.');
  await expect(notice.filter({ visible: true })).toBeVisible();
  await page.screenshot({ path: testInfo.outputPath('closed.png') });

  // The notebook has another kernel now; the tabs show its cluster.
  await page.evaluate(async () => {
    const widgets = [...window.jupyterapp.shell.widgets('main')];
    const notebook = widgets.find(
      ({ title }) => title.label === 'analysis.ipynb'
    ) as unknown as {
      sessionContext: { changeKernel(kernel: object): Promise<unknown> };
    };
    await notebook.sessionContext.changeKernel({ name: 'python3' });
  });
  await panel.getByRole('button', { name: 'Start: analysis.ipynb' }).click();
  await expect(clusterCard(page).getByText('ready')).toBeVisible();
  await expect(notice.filter({ visible: true })).toBeHidden();
  await expect(plot.locator('canvas').first()).toBeVisible();
  await page.screenshot({ path: testInfo.outputPath('next.png') });
  await page.getByRole('tab', { name: 'Dask: analysis.ipynb' }).click();
  await expect(dashboard.locator('canvas').first()).toBeVisible();

  // The plots of the setting are opened beside the notebook, and those that are open are kept.
  await panel.getByRole('button', { name: 'Plots: analysis.ipynb' }).click();
  await expect(
    page.getByRole('tab', { name: 'GPU Memory: analysis.ipynb' })
  ).toBeVisible();
  await expect(
    page.getByRole('tab', { name: 'Task Stream: analysis.ipynb' })
  ).toHaveCount(1);
  const progress = page.locator('iframe[title="Progress: analysis.ipynb"]');
  await expect(progress).toBeVisible();
  await expect(page.locator('.jp-NotebookPanel')).toBeVisible();
  await page.screenshot({ path: testInfo.outputPath('layout.png') });
});
