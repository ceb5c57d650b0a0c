/**
 * The card of a cluster that somebody else started and to which a kernel is connected.
 */
import { expect, test } from '@jupyterlab/galata';
import { ChildProcess, spawn } from 'child_process';
import { mkdtempSync, readFileSync, rmSync } from 'fs';
import { tmpdir } from 'os';
import path from 'path';

import { clusterCard, gpuDaskPanel, logsTab, openAnalysis } from './helpers';

const folder = mkdtempSync(path.join(tmpdir(), 'others-'));
const file = path.join(folder, 'scheduler.json');
const processes: ChildProcess[] = [];

/** Run `dask` with arguments, as the other user does. */
function dask(...options: string[]): void {
  const python = path.join(path.dirname(process.env.JUPYTER ?? ''), 'dask');
  processes.push(spawn(python, options, { cwd: folder, stdio: 'ignore' }));
}

function address(): string {
  try {
    return JSON.parse(readFileSync(file, 'utf8')).address;
  } catch {
    return '';
  }
}

test.afterAll(() => {
  processes.forEach(each => each.kill('SIGTERM'));
  rmSync(folder, { recursive: true });
});

test('the card of a cluster of somebody else shows its workers and changes nothing', async ({
  page,
  request,
  tmpPath
}, testInfo) => {
  const local = ['--host', '127.0.0.1', '--dashboard-address', '127.0.0.1:0'];
  dask('scheduler', ...local, '--port', '0', '--scheduler-file', file);
  await expect.poll(address).toMatch(/^tcp:/);
  dask('worker', address(), '--name', 'first', '--nthreads', '1');
  dask('worker', address(), '--name', 'second', '--nthreads', '1');

  await openAnalysis(page, request, tmpPath);
  await page.notebook.setCell(
    0,
    'code',
    `%load_ext jupyter_gpudask
from distributed import Client
with Client("${address()}", set_as_default=False) as other: other.wait_for_workers(2)
%gpudask connect ${address()}`
  );
  await page.notebook.runCell(0);
  const card = clusterCard(page);
  await expect(card.getByText('connected')).toBeVisible();
  await expect(card).toContainText(address());
  const workers = card.getByRole('list', { name: 'Workers of analysis.ipynb' });
  await expect(workers.getByRole('listitem')).toHaveCount(2);
  await expect(workers).toContainText('Worker first');
  for (const theme of ['Light', 'Dark']) {
    await page.theme.setTheme(`JupyterLab ${theme}`);
    await page.screenshot({ path: testInfo.outputPath(`joined-${theme}.png`) });
  }

  // What only its owner does is not offered.
  await expect(card.getByRole('button', { name: 'Stop' })).toHaveCount(0);
  await expect(card.getByRole('button', { name: 'Plots' })).toHaveCount(0);
  await card.getByRole('button', { name: 'More actions' }).click();
  const items = page.getByRole('menu').getByRole('menuitem');
  await expect(items.filter({ hasText: 'Insert Dask Client' })).toBeVisible();
  await expect(
    items.filter({ hasText: /Scale|Restart|Release|Dashboard/ })
  ).toHaveCount(0);
  await page.keyboard.press('Escape');
  await card.getByRole('button', { name: 'Logs' }).click();
  await expect(logsTab(page)).toContainText('second');

  await page.notebook.activate('analysis.ipynb');
  await page.notebook.setCell(0, 'code', '%gpudask disconnect');
  await page.notebook.runCell(0);
  await expect(gpuDaskPanel(page)).toContainText('has no cluster yet');
});
