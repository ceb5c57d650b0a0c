/**
 * Clusters that are closed when they are idle, on a server with a timeout of a few seconds.
 */
import { expect, test } from '@playwright/test';

import { JupyterServer } from './jupyterServer';
import { expectIdleKernel, uploadNotebook } from './helpers';

const server = new JupyterServer('/user/ada/', ['--GpuDask.idle_timeout=8']);

test.afterEach(async () => server.stop());

test('a notification reports that an idle cluster was closed, with a button that starts it again', async ({
  page,
  request
}, testInfo) => {
  await server.start();
  await server.open(page, 'lab?reset');
  await uploadNotebook(request, 'idle.ipynb', 'python3', server.url);
  await page.goto(`${server.url}lab/tree/idle.ipynb?reset`);
  const button = page.locator('.jp-GpuDask-toolbarButton').getByRole('button');
  const sessions = async (): Promise<{ kernel: { id: string } }[]> =>
    (await request.get(`${server.url}api/sessions`)).json();
  await expect.poll(sessions).toHaveLength(1);
  await expectIdleKernel(page);
  const [{ kernel }] = await sessions();
  const order = { kernel_id: kernel.id, spec: { engine: 'cpu', workers: 1 } };
  await request.post(`${server.url}gpudask/api/clusters`, { data: order });
  await expect(button).toHaveAccessibleName(/CPU stand-in/);

  const toast = page
    .locator('.Toastify__toast')
    .filter({ hasText: 'idle.ipynb' });
  await expect(toast).toContainText(
    'The cluster was closed after 8 seconds without work'
  );
  await page.screenshot({ path: testInfo.outputPath('idle.png') });
  await toast.getByRole('button', { name: 'Start again' }).click();
  await expect(button).toHaveAccessibleName(/CPU stand-in/);
});
