/**
 * Notifications of failures, and kernels without the required packages.
 */
import { expect, IJupyterLabPageFixture, test } from '@jupyterlab/galata';

import {
  clusterCard,
  clusterOnServer,
  gpuDaskPanel,
  logsTab,
  openAnalysis,
  startOnCpu,
  setCode
} from './helpers';

test('notifications report tasks without device memory, killed workers and clusters, with actions', async ({
  page,
  request,
  tmpPath
}) => {
  await openAnalysis(page, request, tmpPath);
  await startOnCpu(page);
  const toast = page.locator('.Toastify__toast');
  // CuPy's error has this name; the CPU has no device memory that could be used up.
  await setCode(
    page,
    0,
    `%load_ext jupyter_gpudask
cluster = %gpudask start
class OutOfMemoryError(MemoryError): pass
def allocate(number): raise OutOfMemoryError("Out of memory allocating 8,589,934,592 bytes")
cluster.client.gather(cluster.client.map(allocate, range(3)))`
  );
  await page.notebook.runCell(0);
  await expect(toast).toContainText(
    'analysis.ipynb: a task ran out of device memory on Worker'
  );
  await expect(toast).toHaveCount(1);
  await toast.getByRole('button', { name: 'Logs' }).click();
  await expect(toast).toBeHidden();

  const { pid, state } = await clusterOnServer(request);
  process.kill(state.workers[0].pid, 'SIGKILL');
  await expect(toast).toContainText(
    'analysis.ipynb: a worker was lost (Worker 0)'
  );
  await toast.getByRole('button', { name: 'Logs' }).click();
  await expect(logsTab(page)).toContainText('was killed by signal 9');
  await expect(toast).toBeHidden();

  // The card shows it while the panel is visible; otherwise there is a notification.
  await page.sidebar.openTab('filebrowser');
  process.kill(pid, 'SIGKILL');
  await expect(toast).toContainText('The cluster of analysis.ipynb has failed');

  // The notification is dismissed when the cluster is started again.
  const { kernel_id: kernelId } = await clusterOnServer(request);
  await request.post(`/gpudask/api/clusters/${kernelId}/restart`);
  await expect(toast).toBeHidden();
  await expect
    .poll(async () => (await clusterOnServer(request)).pid)
    .not.toBeNull();
  process.kill((await clusterOnServer(request)).pid, 'SIGKILL');
  // The page may have seen no state between `starting` and `failed`.
  await expect(toast).toContainText(
    /The cluster of analysis.ipynb (has failed|did not start)/
  );
  await toast.getByRole('button', { name: 'Start again' }).click();
  await page.sidebar.openTab('jupyter-gpudask-panel');
  await expect(clusterCard(page).getByText('ready')).toBeVisible();

  // With the options that it had.
  await expect(
    clusterCard(page)
      .getByRole('list', { name: 'Workers' })
      .getByRole('listitem')
  ).toHaveCount(2);
  await expect(clusterCard(page)).toContainText('CPU cluster');

  // There is no notification for actions of the user.
  await clusterCard(page).getByRole('button', { name: 'Stop' }).click();
  await expect(gpuDaskPanel(page)).toContainText('has no cluster');
  await expect(toast).toBeHidden();
});

/** Start a cluster with a kernel that lacks packages: the card and the dialog have the reason, and what installs them. */
async function expectRefusal(
  page: IJupyterLabPageFixture,
  reason: string
): Promise<void> {
  const card = clusterCard(page);
  await gpuDaskPanel(page)
    .getByRole('button', { name: 'Start: analysis.ipynb' })
    .click();
  await expect(card.getByText('failed')).toBeVisible();
  await expect(card).toContainText(reason);
  await expect(card.locator('code')).toHaveText(
    /^%pip install "jupyter_gpudask\[cu13\]( @ [^"]+)?"$/
  );
  await expect(card).not.toContainText('--');
  // The refused request is not repeated unchanged.
  await card.getByRole('button', { name: /options…/i }).click();
  const dialog = page.getByRole('dialog');
  await expect(dialog.getByRole('alert')).toContainText(reason);
  await dialog.getByRole('button', { name: 'Cancel' }).click();
}

test('a kernel without the package shows the command that installs it', async ({
  page,
  request,
  tmpPath
}) => {
  await openAnalysis(page, request, tmpPath, 'without-package');
  await expectRefusal(page, "The kernel's environment has no jupyter_gpudask.");
});

test('a kernel without GPU packages shows the command that installs them, and can start on the CPU', async ({
  page,
  request,
  tmpPath
}) => {
  await openAnalysis(page, request, tmpPath, 'without-gpu-packages');
  await expectRefusal(
    page,
    'This machine has a GPU, but this Python environment lacks CuPy'
  );
  const card = clusterCard(page);
  await card.getByRole('button', { name: 'Start on the CPU' }).click();
  await expect(card.getByText('ready')).toBeVisible();
  await expect(card).toContainText('CPU cluster');
});
