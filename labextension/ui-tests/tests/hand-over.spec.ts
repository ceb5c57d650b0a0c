/**
 * The notice with which an idle cluster is asked for its GPUs, on a server where another kernel waits for them.
 */
import { expect, test } from '@playwright/test';

import { clusterCard, expectIdleKernel, uploadNotebook } from './helpers';
import { JupyterServer } from './jupyterServer';

const server = new JupyterServer('/user/ada/', [
  '--GpuDask.hand_over_after=15'
]);

test.afterEach(async () => server.stop());

test('the user of an idle cluster reads who wants its GPUs, and keeps them', async ({
  page,
  request
}, testInfo) => {
  await server.start();
  await server.open(page, 'lab?reset');
  await uploadNotebook(request, 'idle.ipynb', 'python3', server.url);
  await page.goto(`${server.url}lab/tree/idle.ipynb?reset`);
  const sessions = async (): Promise<{ kernel: { id: string } }[]> =>
    (await request.get(`${server.url}api/sessions`)).json();
  await expect.poll(sessions).toHaveLength(1);
  await expectIdleKernel(page);
  const [{ kernel }] = await sessions();
  const clusters = `${server.url}gpudask/api/clusters`;
  const start = async (id: string, spec: object): Promise<void> => {
    const reply = await request.post(clusters, {
      data: { kernel_id: id, spec: { engine: 'cuda', ...spec } }
    });
    expect(reply.status()).toBe(202);
  };
  const value = (name: string) => async (): Promise<unknown> =>
    (await (await request.get(`${clusters}/${kernel.id}`)).json())[name];
  await start(kernel.id, { gpus: 2 });
  await expect.poll(value('status')).toBe('ready');

  const kernels = `${server.url}api/kernels`;
  const waiting = await request.post(kernels, { data: { name: 'python3' } });
  await start((await waiting.json()).id, { gpus: 1, wait: true });
  const toast = page
    .locator('.Toastify__toast')
    .filter({ hasText: 'idle.ipynb' });
  await expect(toast).toContainText(/^idle\.ipynb: GPUs wanted by /);
  await expect(toast).toContainText('unless kept.');
  await page.getByRole('tab', { name: 'GPU Dask' }).click();
  const notice = clusterCard(page, 'idle.ipynb').getByRole('alert');
  await expect(notice).toContainText('The idle cluster is closed at ');
  await page.screenshot({ path: testInfo.outputPath('notice.png') });

  // The answer in the notification withdraws the notice everywhere.
  await toast.getByRole('button', { name: 'Keep' }).click();
  await expect(toast).toBeHidden();
  await expect(notice).toBeHidden();
  expect(await value('given_over_at')()).toBeNull();

  // While somebody waits it comes again, and the answer on the card does the same.
  await notice.getByRole('button', { name: 'Keep: idle.ipynb' }).click();
  await expect(toast).toBeHidden();
  await expect(notice).toBeHidden();
  expect(await value('given_over_at')()).toBeNull();
  expect(await value('status')()).toBe('ready');
});
