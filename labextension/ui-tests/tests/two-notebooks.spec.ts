/**
 * Two notebooks with a cluster each.
 */
import { expect, test } from '@jupyterlab/galata';

import {
  chooseAction,
  clusterCard,
  clusterOnServer,
  expectIdleKernel,
  gpuDaskPanel,
  logsTab,
  openAnalysis,
  startOnCpu,
  submitTasks,
  uploadNotebook
} from './helpers';

test('each notebook has its own card, whose buttons do not affect the other cluster', async ({
  page,
  request,
  tmpPath
}, testInfo) => {
  await uploadNotebook(request, `${tmpPath}/other.ipynb`);
  await page.notebook.openByPath(`${tmpPath}/other.ipynb`);
  await expectIdleKernel(page);
  await openAnalysis(page, request, tmpPath);
  await startOnCpu(page);
  const cards = gpuDaskPanel(page)
    .getByRole('list', { name: 'Clusters' })
    .locator('> li');
  const ours = clusterCard(page);
  const other = clusterCard(page, 'other.ipynb');

  // The cluster of the notebook in front is the first; without one, it is offered one.
  await page.activity.activateTab('other.ipynb');
  await expect(gpuDaskPanel(page)).toContainText('other.ipynb has no cluster.');
  await startOnCpu(page, 'other.ipynb', 1);
  await expect(cards).toHaveCount(2);
  await expect(cards.first()).toHaveAccessibleName('Cluster of other.ipynb');
  await page.activity.activateTab('analysis.ipynb');
  await expect(cards.first()).toHaveAccessibleName('Cluster of analysis.ipynb');

  await submitTasks(page, 3);
  await expect(ours.getByText('2 running, 1 waiting')).toBeVisible();
  await page.screenshot({ path: testInfo.outputPath('two.png') });

  await ours.getByRole('button', { name: 'Logs' }).click();
  await expect(logsTab(page)).toContainText('Scheduler');
  // The name of a cluster shows its notebook, also one that was closed.
  const shows = async (name: string): Promise<void> => {
    await clusterCard(page, name)
      .getByRole('button', { name, exact: true })
      .press('Enter');
    await expect(
      page.getByRole('main').getByRole('tab', { name, exact: true })
    ).toHaveClass(/jp-mod-current/);
  };
  await shows('analysis.ipynb');
  await page.activity.closePanel('other.ipynb');
  await shows('other.ipynb');
  await expect(cards.first()).toHaveAccessibleName('Cluster of other.ipynb');
  await shows('analysis.ipynb');
  const dialog = page.getByRole('dialog');

  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await chooseAction(ours, 'Copy Dask Client Code');
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  expect(copied).toContain('client = cluster.client');

  const before = (await clusterOnServer(request)).pid;
  const othersPid = (await clusterOnServer(request, 'other.ipynb')).pid;
  await chooseAction(ours, 'Restart Cluster');
  await expect(dialog).toContainText('3 tasks are not finished');
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  expect((await clusterOnServer(request)).pid).toBe(before);

  await chooseAction(ours, 'Restart Cluster');
  await dialog.getByRole('button', { name: 'Restart' }).click();
  await expect(ours.getByRole('button', { name: 'Logs' })).toBeHidden();
  await expect(ours.getByText('ready')).toBeVisible();
  await expect(ours.getByText('2 running, 1 waiting')).toBeHidden();
  expect((await clusterOnServer(request)).pid).not.toBe(before);

  // A cluster that has ended is started with other options from its card.
  process.kill((await clusterOnServer(request)).pid, 'SIGKILL');
  await ours.getByRole('button', { name: 'Options…' }).click();
  await dialog.getByLabel('Runs on').selectOption('cpu');
  await dialog.getByLabel('Workers').fill('1');
  await page.screenshot({ path: testInfo.outputPath('again.png') });
  await dialog.getByRole('button', { name: 'Start' }).click();
  await expect(ours.getByText('ready')).toBeVisible();
  await expect(
    ours.getByRole('list', { name: 'Workers' }).getByRole('listitem')
  ).toHaveCount(1);

  expect((await clusterOnServer(request, 'other.ipynb')).pid).toBe(othersPid);
  await other.getByRole('button', { name: 'Stop' }).click();
  await expect(other).toBeHidden();
  await expect(ours.getByText('ready')).toBeVisible();
  await page
    .locator('.jp-GpuDask-toolbarButton')
    .filter({ visible: true })
    .getByRole('button')
    .click();
  await page.getByRole('menuitem', { name: 'Stop Cluster' }).click();
  await expect(ours).toBeHidden();
});

test('if no notebook is open, a button creates one', async ({ page }) => {
  await page.sidebar.openTab('jupyter-gpudask-panel');
  await gpuDaskPanel(page)
    .getByRole('button', { name: 'New notebook' })
    .click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('button', { name: 'Select' }).click();
  await expect(gpuDaskPanel(page)).toContainText('has no cluster.');
});
