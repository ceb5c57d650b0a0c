/**
 * The output of the magics in a notebook.
 */
import { expect, test } from '@jupyterlab/galata';

import { clusterCard, clusterOnServer, openAnalysis } from './helpers';

test('the start shows its progress, and the status is updated and saved in the file', async ({
  page,
  request,
  tmpPath
}, testInfo) => {
  await openAnalysis(page, request, tmpPath);
  await page.notebook.setCell(
    0,
    'code',
    '%load_ext jupyter_gpudask\nstarted = %gpudask start --cpu 2'
  );
  const outputs = page.locator('.jp-Notebook .jp-OutputArea-output');
  const isRun = page.notebook.runCell(0);
  await expect(outputs.first().getByRole('progressbar')).toBeVisible();
  await page.screenshot({ path: testInfo.outputPath('start.png') });
  await isRun;
  await expect(outputs.first()).toContainText('2 workers');
  await expect(outputs.first().getByRole('progressbar')).toBeHidden();

  await page.notebook.setCell(1, 'code', '%gpudask status');
  await page.notebook.runCell(1);
  const status = outputs.nth(1);
  // All columns fit beside the open panel.
  const area = (await status.boundingBox())!;
  const table = (await status.getByRole('table').boundingBox())!;
  expect(table.x + table.width).toBeLessThanOrEqual(area.x + area.width);
  const widget = status.locator('.jupyter-widgets');
  // Tasks that run, and that wait, of a worker.
  await expect(widget).toContainText(/MiB00/);

  await page.notebook.setCell(
    2,
    'code',
    'import time\nwaits = started.client.map(lambda _: time.sleep(600), range(3), pure=False)'
  );
  await page.notebook.runCell(2);
  await expect(widget).toContainText(/MiB1\d/);
  await page.screenshot({ path: testInfo.outputPath('status.png') });
  const height = async () =>
    (await status.getByRole('table').boundingBox())!.height;
  const live = await height();

  // The toolbar shows that every cell runs on the cluster.
  const toolbar = page.locator('.jp-GpuDask-toolbarButton');
  await page.notebook.setCell(2, 'code', '%gpudask on');
  await page.notebook.runCell(2);
  const on = toolbar.getByRole('button', { name: 'CPU stand-in · on' });
  await expect(on).toBeVisible();
  await expect(toolbar.getByTitle(/Every cell that uses Dask/)).toBeVisible();
  await page.screenshot({ path: testInfo.outputPath('on.png') });
  await page.notebook.setCell(2, 'code', '%gpudask off');
  await page.notebook.runCell(2);
  await expect(on).toBeHidden();

  await page.notebook.setCell(2, 'code', '%gpudask start');
  await page.notebook.runCell(2);
  await expect(
    page.locator('.jp-Notebook').getByRole('link', { name: 'dashboard' })
  ).toHaveAttribute('href', /^\/gpudask\/dashboard\/.*\/status$/);

  // The file has a table, which is seen without the kernel.
  await page.notebook.save();
  const reply = await request.get(`/api/contents/${tmpPath}/analysis.ipynb`);
  const saved = JSON.stringify((await reply.json()).content.cells[1].outputs);
  expect(saved).toContain('"text/html":"<table ');
  expect(saved).not.toContain('widget-view');
  await expect(widget).toContainText(/MiB1\d/);
  await page.notebook.close();
  const sessions = await (await request.get('/api/sessions')).json();
  for (const { kernel } of sessions) {
    await request.delete(`/api/kernels/${kernel.id}`);
  }
  await page.sidebar.openTab('filebrowser');
  await page.notebook.openByPath(`${tmpPath}/analysis.ipynb`);
  await expect(outputs.nth(1).getByRole('table')).toContainText('State at 20');
  expect(Math.abs((await height()) - live)).toBeLessThan(8);
  await page.screenshot({ path: testInfo.outputPath('later.png') });
});

test('the card, the status and the line of a running cell agree', async ({
  page,
  request,
  tmpPath
}, testInfo) => {
  await openAnalysis(page, request, tmpPath);
  await page.notebook.setCell(
    0,
    'code',
    '%load_ext jupyter_gpudask\nstarted = %gpudask start --cpu 2'
  );
  await page.notebook.runCell(0);
  await page.notebook.setCell(1, 'code', '%gpudask status');
  await page.notebook.runCell(1);
  await page.notebook.setCell(
    2,
    'code',
    '%%gpudask\nimport time\n' +
      'tasks = started.client.map(lambda _: time.sleep(600), range(3), pure=False)\n' +
      'started.client.gather(tasks)'
  );
  const isRun = page.notebook.runCell(2);
  const outputs = page.locator('.jp-Notebook .jp-OutputArea-output');
  await expect(outputs.filter({ hasText: '0 of 3 tasks done' })).toBeVisible();
  await expect(
    clusterCard(page).getByText('2 running, 1 waiting')
  ).toBeVisible();
  await expect(
    outputs.filter({ hasText: 'Tasks: 2 running, 1 waiting.' })
  ).toBeVisible();
  await page.screenshot({ path: testInfo.outputPath('agree.png') });

  const { kernel_id: kernelId } = await clusterOnServer(request);
  await request.post(`/api/kernels/${kernelId}/interrupt`);
  await isRun;
  await expect(
    outputs.filter({ hasText: '0 of 3 tasks, 3 cancelled' })
  ).toBeVisible();
  await expect(
    outputs.filter({ hasText: 'Tasks: 0 running, 0 waiting.' })
  ).toBeVisible();
  await expect(clusterCard(page).getByText('idle').first()).toBeVisible();
});

test('the toolbar shows that a kernel is accelerated, also after a reload', async ({
  page,
  request,
  tmpPath
}, testInfo) => {
  await openAnalysis(page, request, tmpPath);
  // A stand-in for cudf.pandas, which a machine without a GPU does not have.
  await page.notebook.setCell(
    0,
    'code',
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
  await page.screenshot({ path: testInfo.outputPath('accelerated.png') });
  await dialog.getByRole('button', { name: 'Ok' }).click();
  const button = toolbar.getByRole('button', { name: 'accelerated' });
  await expect(button).toBeVisible();

  await page.notebook.save();
  await page.reload({ waitForIsReady: false });
  await expect(button).toBeVisible();
  await button.click();
  await page.screenshot({ path: testInfo.outputPath('menu.png') });
  await page.getByText(entry).click();
  await dialog.getByRole('button', { name: 'Confirm Kernel Restart' }).click();
  await expect(button).toBeHidden();
});
