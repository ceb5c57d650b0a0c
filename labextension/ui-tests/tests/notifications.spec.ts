/**
 * Notifications of failures, and kernels without the required packages.
 */
import { expect, test } from '@jupyterlab/galata';

import {
  clusterCard,
  clusterOnServer,
  gpuDaskPanel,
  logsTab,
  openAnalysis,
  startOnCpu
} from './helpers';

test('notifications report killed workers and clusters, with actions', async ({
  page,
  request,
  tmpPath
}, testInfo) => {
  await openAnalysis(page, request, tmpPath);
  await startOnCpu(page);
  const { pid, state } = await clusterOnServer(request);
  process.kill(state.workers[0].pid, 'SIGKILL');
  const toast = page.locator('.Toastify__toast');
  await expect(toast).toContainText(
    'analysis.ipynb: a worker was lost (Worker 0)'
  );
  await page.screenshot({ path: testInfo.outputPath('worker.png') });
  await toast.getByRole('button', { name: 'Logs' }).click();
  await expect(logsTab(page)).toContainText('was killed by signal 9');
  await expect(toast).toBeHidden();

  // The card shows it while the panel is visible; otherwise there is a notification.
  await page.sidebar.openTab('filebrowser');
  process.kill(pid, 'SIGKILL');
  await expect(toast).toContainText('The cluster of analysis.ipynb has failed');
  await page.screenshot({ path: testInfo.outputPath('failed.png') });

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
  await expect(clusterCard(page)).toContainText('CPU stand-in');

  // There is no notification for actions of the user.
  await clusterCard(page).getByRole('button', { name: 'Stop' }).click();
  await expect(gpuDaskPanel(page)).toContainText('has no cluster');
  await expect(toast).toBeHidden();
});

test('a notification reports a task that ran out of device memory, with a fix', async ({
  page,
  request,
  tmpPath
}, testInfo) => {
  await openAnalysis(page, request, tmpPath);
  await startOnCpu(page);
  // CuPy's error has this name; the CPU has no device memory that could be used up.
  await page.notebook.setCell(
    0,
    'code',
    `%load_ext jupyter_gpudask
cluster = %gpudask start
class OutOfMemoryError(MemoryError): pass
def allocate(number): raise OutOfMemoryError("Out of memory allocating 8,589,934,592 bytes")
cluster.client.gather(cluster.client.map(allocate, range(3)))`
  );
  await page.notebook.runCell(0);
  const toast = page.locator('.Toastify__toast');
  await expect(toast).toContainText(
    'analysis.ipynb: a task ran out of device memory on Worker'
  );
  await expect(toast).toHaveCount(1);
  await page.screenshot({ path: testInfo.outputPath('device-memory.png') });
});

const KERNELS = [
  {
    kernel: 'without-package',
    reason: 'The kernel’s environment has no jupyter_gpudask.',
    button: 'Options…',
    command: /^%pip install "jupyter_gpudask\[cu13\]( @ [^"]+)?"$/
  },
  {
    kernel: 'without-gpu-packages',
    reason: 'This machine has a GPU, but this Python environment lacks CuPy',
    button: 'Change options…',
    command: /^%pip install "jupyter_gpudask\[cu13\]( @ [^"]+)?"$/
  }
];

for (const { kernel, reason, button, command } of KERNELS) {
  test(`a kernel ${kernel} shows the command that installs the package`, async ({
    page,
    request,
    tmpPath
  }, testInfo) => {
    await openAnalysis(page, request, tmpPath, kernel);
    await gpuDaskPanel(page)
      .getByRole('button', { name: 'Start: analysis.ipynb' })
      .click();
    const card = clusterCard(page);
    await expect(card.getByText('failed')).toBeVisible();
    await expect(card).toContainText(reason.replace('’', "'"));
    await expect(card.locator('code')).toHaveText(command);
    await expect(card).not.toContainText('--');
    await page.screenshot({ path: testInfo.outputPath(`${kernel}.png`) });

    // The refused request is not repeated unchanged.
    await card.getByRole('button', { name: button }).click();
    const dialog = page.getByRole('dialog');
    await expect(dialog.getByRole('alert')).toContainText(
      reason.replace('’', "'")
    );
    await page.screenshot({
      path: testInfo.outputPath(`${kernel}-dialog.png`)
    });
    await dialog.getByRole('button', { name: 'Cancel' }).click();
  });
}
