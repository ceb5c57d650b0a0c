/**
 * GPUs that another notebook holds.
 */
import { expect, test } from '@jupyterlab/galata';
import { APIRequestContext } from '@playwright/test';

import {
  clusterCard,
  expectIdleKernel,
  gpuDaskPanel,
  openAnalysis,
  uploadNotebook
} from './helpers';

/** Start a cluster for a kernel, without a browser. */
async function startCluster(
  request: APIRequestContext,
  kernelId: string,
  gpus: 'all' | number[],
  wait = false
): Promise<void> {
  const data = { kernel_id: kernelId, spec: { gpus, wait } };
  const reply = await request.post('/gpudask/api/clusters', { data });
  expect(reply.status()).toBe(202);
}

test('the second notebook starts on the GPUs that the first one leaves', async ({
  page,
  request,
  tmpPath
}, testInfo) => {
  await uploadNotebook(request, `${tmpPath}/other.ipynb`);
  await page.notebook.openByPath(`${tmpPath}/other.ipynb`);
  await expectIdleKernel(page);
  await openAnalysis(page, request, tmpPath);
  const panel = gpuDaskPanel(page);
  const dialog = page.getByRole('dialog');

  await page.activity.activateTab('other.ipynb');
  await panel.getByRole('button', { name: 'Options…: other.ipynb' }).click();
  await dialog.getByRole('checkbox', { name: '1 NVIDIA H200' }).uncheck();
  await dialog.getByRole('button', { name: 'Start' }).click();
  await expect(
    clusterCard(page, 'other.ipynb').getByText('ready')
  ).toBeVisible();

  await page.activity.activateTab('analysis.ipynb');
  await panel.getByRole('button', { name: 'Start: analysis.ipynb' }).click();
  const card = clusterCard(page);
  await expect(card.getByText('ready')).toBeVisible();
  const held = [
    panel.getByRole('button', { name: 'GPU 0: other.ipynb' }),
    panel.getByRole('button', { name: 'GPU 1: analysis.ipynb' })
  ];
  for (const row of held) {
    await expect(row).toBeVisible();
  }
  await page.screenshot({ path: testInfo.outputPath('two.png') });
  await card.getByRole('button', { name: 'Stop' }).click();
  await expect(card).toBeHidden();

  // A start that asks for all of them is refused, and the refusal has a button.
  const sessions = await (await request.get('/api/sessions')).json();
  const { kernel } = sessions.find(({ path }: { path: string }) =>
    path.endsWith('analysis.ipynb')
  );
  await startCluster(request, kernel.id, 'all');
  await expect(card).toContainText(/GPU 0 is held by \S*other.ipynb/);
  await page.screenshot({ path: testInfo.outputPath('refused.png') });
  await card.getByRole('button', { name: 'Start on the free GPUs' }).click();
  await expect(card.getByText('ready')).toBeVisible();
  await expect(held[1]).toBeVisible();

  // When the GPU is free, the refusal is over: the cluster can be started again with its own options.
  await card.getByRole('button', { name: 'Stop' }).click();
  await expect(card).toBeHidden();
  await startCluster(request, kernel.id, 'all');
  await expect(card).toContainText(/GPU 0 is held by \S*other.ipynb/);
  await clusterCard(page, 'other.ipynb')
    .getByRole('button', { name: 'Stop' })
    .click();
  await expect(card).toContainText(
    'The cluster did not start because GPU 0 was held. It is free now.'
  );
  await expect(card).not.toContainText('other.ipynb');
  for (const theme of ['JupyterLab Dark', 'JupyterLab Light']) {
    await page.theme.setTheme(theme);
    await page.screenshot({
      path: testInfo.outputPath(`free-${theme.slice(11)}.png`)
    });
  }
  await card.getByRole('button', { name: 'Start again' }).click();
  await expect(card.getByText('ready')).toBeVisible();
  await expect(
    panel.getByRole('button', { name: 'GPU 0: analysis.ipynb' })
  ).toBeVisible();
});

test('a GPU that is taken while the start dialog is open is refused, and the dialog keeps its height', async ({
  page,
  request,
  tmpPath
}, testInfo) => {
  await openAnalysis(page, request, tmpPath);
  await gpuDaskPanel(page)
    .getByRole('button', { name: 'Options…: analysis.ipynb' })
    .click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('checkbox', { name: '1 NVIDIA H200' }).uncheck();
  const reply = await request.post('/api/kernels', {
    data: { name: 'python3' }
  });
  const { id } = await reply.json();
  await startCluster(request, id, [0]);
  await expect
    .poll(async () => {
      const cluster = await request.get(`/gpudask/api/clusters/${id}`);
      return (await cluster.json()).status;
    })
    .toBe('ready');
  await dialog.getByRole('button', { name: 'Start' }).click();
  const card = clusterCard(page);
  await card.getByRole('button', { name: 'Change options…' }).click();
  const problem = dialog
    .getByRole('group', { name: 'GPUs' })
    .getByRole('alert');
  await expect(problem).toContainText(/GPU 0 is held by \S+/);
  const form = dialog.locator('.jp-GpuDask-form');
  const before = await form.boundingBox();
  await page.screenshot({ path: testInfo.outputPath('taken.png') });
  await dialog.getByRole('checkbox', { name: '1 NVIDIA H200' }).check();
  await expect(problem).toBeHidden();
  expect((await form.boundingBox())?.height).toBe(before?.height);

  await dialog.getByRole('button', { name: 'Start' }).click();
  await expect(card.getByText('ready')).toBeVisible();
  await request.delete(`/api/kernels/${id}`);
});

test('a start that waits is shown in the line until the GPU is free', async ({
  page,
  request,
  tmpPath
}, testInfo) => {
  await openAnalysis(page, request, tmpPath);
  const panel = gpuDaskPanel(page);
  await panel.getByRole('button', { name: 'Start: analysis.ipynb' }).click();
  const card = clusterCard(page);
  await expect(card.getByText('ready')).toBeVisible();
  const line = panel.getByRole('list', { name: 'In line for GPUs' });
  await expect(line).toBeHidden();

  const reply = await request.post('/api/kernels', {
    data: { name: 'python3' }
  });
  const { id } = await reply.json();
  await startCluster(request, id, [0], true);
  const place = line.getByRole('listitem');
  await expect(place).toHaveText(/^1\. user \S+ since \d\d:\d\d.*: 1 GPU$/);
  const waiting = async (): Promise<string> =>
    (await (await request.get(`/gpudask/api/clusters/${id}`)).json()).status;
  expect(await waiting()).toBe('starting');
  await expect(panel).toContainText(
    /Waiting for GPUs at place 1 in line\. GPU 0 is held by \S*analysis\.ipynb/
  );
  await page.screenshot({ path: testInfo.outputPath('line.png') });

  await card.getByRole('button', { name: 'Stop' }).click();
  await expect(line).toBeHidden();
  await expect.poll(waiting).toBe('ready');
  await request.delete(`/api/kernels/${id}`);
});
