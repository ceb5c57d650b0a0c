/**
 * A running cell counts as work, and a server that says nothing is shown as such.
 */
import { expect, test } from '@jupyterlab/galata';
import { test as plainTest } from '@playwright/test';

import {
  clusterCard,
  clusterOnServer,
  gpuDaskPanel,
  openAnalysis,
  picture,
  runFromPalette,
  setCode,
  startOnCpu
} from './helpers';
import { playScene } from './mockStream';

test('a cluster is not stopped without a question while its notebook runs a cell', async ({
  page,
  request,
  tmpPath
}, testInfo) => {
  await openAnalysis(page, request, tmpPath);
  await startOnCpu(page);
  await setCode(page, 0, 'import time\ntime.sleep(600)');
  const isRun = page.notebook.runCell(0);
  const card = clusterCard(page);
  await expect(card.getByText('running a cell')).toBeVisible();
  const dialog = page.getByRole('dialog');
  await card.getByRole('button', { name: 'Stop' }).click();
  await expect(dialog).toContainText('Its notebook is running a cell.');
  await picture(page, testInfo, 'question');
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  await page.keyboard.press('Control+Alt+Shift+X');
  await expect(dialog).toContainText('Its notebook is running a cell.');
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  await expect(card.getByText('ready')).toBeVisible();
  const { kernel_id: kernelId } = await clusterOnServer(request);
  await request.post(`/api/kernels/${kernelId}/interrupt`);
  await isRun;
  await expect(card.getByText('running a cell')).toBeHidden();

  await test.step('the question says that the cell has ended, and its buttons stay where they are', async () => {
    const isAgain = page.notebook.runCell(0);
    await expect(card.getByText('running a cell')).toBeVisible();
    await card.getByRole('button', { name: 'Stop' }).click();
    await expect(dialog).toContainText('Its notebook is running a cell.');
    const cancel = dialog.getByRole('button', { name: 'Cancel' });
    const place = await cancel.boundingBox();
    await request.post(`/api/kernels/${kernelId}/interrupt`);
    await isAgain;
    await expect(dialog).toContainText('nothing would be lost now.');
    expect(await cancel.boundingBox()).toEqual(place);
    await picture(page, testInfo, 'question-over');
    await dialog.getByRole('button', { name: 'Stop' }).click();
    await expect(card).toBeHidden();
  });
});

test('a line of progress says that its kernel has ended, also in the saved notebook', async ({
  page,
  request,
  tmpPath
}, testInfo) => {
  await openAnalysis(page, request, tmpPath);
  await startOnCpu(page);
  await setCode(page, 0, '%load_ext jupyter_gpudask');
  await page.notebook.runCell(0);
  await page.notebook.addCell('code', '');
  await setCode(
    page,
    1,
    '%%gpudask\nimport os, threading, time\nimport dask\n' +
      'threading.Timer(20, os.kill, (os.getpid(), 9)).start()\n' +
      'dask.delayed(time.sleep)(600).compute()'
  );
  void page.notebook.runCell(1).catch(() => undefined);
  const line = page.locator('.jp-OutputArea-output').last();
  await expect(line).toHaveText(/^0 of \d+ \w+ done .* last seen /);
  const ended = /^Ended without a result: 0 of \d+ \w+ done .* last seen /;
  await expect(line).toHaveText(ended);
  await picture(page, testInfo, 'ended');
  await page.getByRole('dialog').getByRole('button', { name: 'Ok' }).click();
  await page.notebook.save();
  const reply = await request.get(`/api/contents/${tmpPath}/analysis.ipynb`);
  const { content } = await reply.json();
  expect(content.cells[1].outputs.at(-1).data['text/plain']).toMatch(ended);
});

plainTest(
  'what a silent server has sent is grey, with its age, until the server speaks again',
  async ({ page }, testInfo) => {
    const scene = { gpus: 2, workers: 2 };
    const show = await playScene(page, scene);
    await page.goto('lab?reset');
    await page.getByRole('tab', { name: 'Launcher' }).waitFor();
    await runFromPalette(page, 'Show GPU Dask Panel');
    const panel = gpuDaskPanel(page);
    const stale = panel.locator('[data-stale="true"]');
    await expect(panel.getByRole('meter').first()).toBeVisible();
    await page.waitForTimeout(7000);
    await expect(stale).toHaveCount(0);
    await show({ ...scene, isSilent: true });
    await expect(panel.getByText('The server does not respond.')).toBeVisible();
    await expect(panel.getByText(/No data for \d+ s/)).toBeVisible();
    await expect(stale).toHaveCount(2);
    await picture(page, testInfo, 'silent');
    await show(scene);
    await expect(stale).toHaveCount(0);
  }
);
