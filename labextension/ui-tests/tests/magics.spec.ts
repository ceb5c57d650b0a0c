/**
 * The output of the magics in a notebook.
 */
import { expect, test } from '@jupyterlab/galata';

import {
  clusterCard,
  clusterOnServer,
  openAnalysis,
  picture,
  setCode,
  startOnCpu
} from './helpers';

test('the start shows its progress, the status agrees with the card and the running cell, and is saved in the file', async ({
  page,
  request,
  tmpPath
}) => {
  await openAnalysis(page, request, tmpPath);
  await setCode(
    page,
    0,
    '%load_ext jupyter_gpudask\nstarted = %gpudask start --cpu 2'
  );
  const outputs = page.locator('.jp-Notebook .jp-OutputArea-output');
  const isRun = page.notebook.runCell(0);
  await expect(outputs.first()).toContainText('last seen');
  await isRun;
  await expect(outputs.first()).toContainText('2 workers');

  await setCode(page, 1, '%gpudask status');
  await page.notebook.runCell(1);
  const status = outputs.nth(1);
  // All columns fit beside the open panel.
  const area = (await status.boundingBox())!;
  const table = (await status.getByRole('table').boundingBox())!;
  expect(table.x + table.width).toBeLessThanOrEqual(area.x + area.width);
  const widget = status.locator('.jupyter-widgets');
  // Tasks that run, and that wait, of a worker.
  await expect(widget).toContainText(/MiB00/);

  await setCode(
    page,
    2,
    '%%gpudask\nimport time\n' +
      'tasks = started.client.map(lambda _: time.sleep(600), range(3), pure=False)\n' +
      'started.client.gather(tasks)'
  );
  const isCellRun = page.notebook.runCell(2);
  await expect(outputs.filter({ hasText: '0 of 3 tasks done' })).toBeVisible();
  await expect(clusterCard(page).getByText('0 of 3 tasks')).toBeVisible();
  await expect(widget).toContainText('Tasks: 2 running, 1 waiting.');
  await expect(widget).toContainText(/MiB1\d/);
  // The table may be replaced at any time.
  const height = (): Promise<number> =>
    status
      .getByRole('table')
      .evaluate(table => table.getBoundingClientRect().height);
  const live = await height();
  const { kernel_id: kernelId } = await clusterOnServer(request);
  await request.post(`/api/kernels/${kernelId}/interrupt`);
  await isCellRun;
  await expect(
    outputs.filter({ hasText: '0 of 3 tasks, 3 cancelled' })
  ).toBeVisible();
  await expect(widget).toContainText('Tasks: 0 running, 0 waiting.');
  await expect(clusterCard(page).getByText('idle').first()).toBeVisible();

  // The toolbar shows that every cell runs on the cluster.
  const toolbar = page.locator('.jp-GpuDask-toolbarButton');
  await setCode(page, 2, '%gpudask on');
  await page.notebook.runCell(2);
  const on = toolbar.getByRole('button', { name: 'CPU cluster · on' });
  await expect(on).toBeVisible();
  await expect(toolbar.getByTitle(/Every cell that uses Dask/)).toBeVisible();
  await setCode(page, 2, '%gpudask off');
  await page.notebook.runCell(2);
  await expect(on).toBeHidden();

  await setCode(page, 2, '%gpudask start');
  await page.notebook.runCell(2);
  await expect(
    page.locator('.jp-Notebook').getByRole('link', { name: "Dask's dashboard" })
  ).toHaveAttribute('href', /^\/gpudask\/dashboard\/.*\/status$/);

  // The file has a table, which is seen without the kernel.
  await page.notebook.save();
  const reply = await request.get(`/api/contents/${tmpPath}/analysis.ipynb`);
  const saved = JSON.stringify((await reply.json()).content.cells[1].outputs);
  expect(saved).toContain('"text/html":"<table ');
  expect(saved).not.toContain('widget-view');
  await page.notebook.close();
  const sessions = await (await request.get('/api/sessions')).json();
  for (const { kernel } of sessions) {
    await request.delete(`/api/kernels/${kernel.id}`);
  }
  await page.sidebar.openTab('filebrowser');
  await page.notebook.openByPath(`${tmpPath}/analysis.ipynb`);
  await expect(outputs.nth(1)).toContainText('State at 20');
  expect(Math.abs((await height()) - live)).toBeLessThan(8);
});

test('the toolbar shows that a kernel is accelerated, also after a reload', async ({
  page,
  request,
  tmpPath
}) => {
  await openAnalysis(page, request, tmpPath);
  // A stand-in for cudf.pandas, which a machine without a GPU does not have.
  await setCode(
    page,
    0,
    `import sys, types
accelerator = types.ModuleType("cudf.pandas")
accelerator.load_ipython_extension = lambda shell: None
sys.modules["cudf.pandas"] = accelerator`
  );
  await page.notebook.runCell(0);
  const toolbar = page.locator('.jp-GpuDask-toolbarButton');
  await toolbar.getByRole('button').click();
  const entry = 'Accelerate pandas and scikit-learn';
  await page.getByText(entry).click();
  const dialog = page.getByRole('dialog');
  await expect(dialog).toContainText('pandas runs on GPU');
  await dialog.getByRole('button', { name: 'Ok' }).click();
  const button = toolbar.getByRole('button', { name: 'accelerated' });
  await expect(button).toBeVisible();

  await page.notebook.save();
  await page.reload({ waitForIsReady: false });
  await expect(button).toBeVisible();
  await button.click();
  await page.getByText(entry).click();
  await dialog.getByRole('button', { name: 'Confirm Kernel Restart' }).click();
  await expect(button).toBeHidden();
});

test('the blocks of fused tasks are counted below the cell, in the card, in the toolbar and in the title of the page', async ({
  page,
  request,
  tmpPath
}, testInfo) => {
  await openAnalysis(page, request, tmpPath);
  await startOnCpu(page);
  await setCode(
    page,
    0,
    '%load_ext jupyter_gpudask\nimport time, dask.array as da\n' +
      'def slow(block):\n    time.sleep(0.4)\n    return block'
  );
  await page.notebook.runCell(0);
  await setCode(
    page,
    1,
    '%%gpudask\nda.ones(256, chunks=1).map_blocks(slow).sum().compute()'
  );
  const isRun = page.notebook.runCell(1);
  const some = /[1-9]\d*\sof\s2\d\d\sblocks.*about\s\d+\ss\sleft/;
  await expect(
    page.locator('.jp-OutputArea-output').filter({ hasText: some })
  ).toBeVisible();
  const card = clusterCard(page);
  await expect(card.getByText(some)).toBeVisible();
  await expect(
    card.getByRole('meter', { name: 'Progress of analysis.ipynb' })
  ).toHaveAttribute('aria-valuetext', /\d+ of 2\d\d blocks/);
  await expect(page.locator('.jp-GpuDask-toolbarState')).toContainText(/\d+ %/);
  await expect(page).toHaveTitle(/^\d+ % · analysis/);
  await picture(page, testInfo, 'progress');

  const { kernel_id: kernelId } = await clusterOnServer(request);
  await request.post(`/api/kernels/${kernelId}/interrupt`);
  await isRun;
  await expect(
    page
      .locator('.jp-OutputArea-output')
      .filter({ hasText: /\d+ of 2\d\d blocks, \d+ cancelled/ })
  ).toBeVisible();
  await picture(page, testInfo, 'interrupted');
  await expect(page).toHaveTitle(/^analysis/);
});
