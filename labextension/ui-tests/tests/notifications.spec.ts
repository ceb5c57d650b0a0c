/**
 * What befalls clusters, and kernels that lack something.
 */
import { expect, test } from '@jupyterlab/galata';

import {
  clusterCard,
  clusterOnServer,
  gpuDaskPanel,
  openAnalysis,
  startOnCpu
} from './helpers';

test.describe.configure({ timeout: 120000 });

test('workers and clusters that are killed are told, with what to do', async ({
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
    'analysis.ipynb: Worker 0 lost its worker',
    {
      timeout: 30000
    }
  );
  await page.screenshot({ path: testInfo.outputPath('worker.png') });
  await toast.getByRole('button', { name: 'Logs' }).click();
  const dialog = page.getByRole('dialog');
  await expect(dialog).toContainText('was killed by signal 9');
  await dialog.getByRole('button', { name: 'Close' }).click();
  await expect(toast).toBeHidden();

  // The card says it in view; who looks at files is told.
  await page.sidebar.openTab('filebrowser');
  process.kill(pid, 'SIGKILL');
  await expect(toast).toContainText('The cluster of analysis.ipynb has failed');
  await page.screenshot({ path: testInfo.outputPath('failed.png') });

  // It is about the cluster that failed, and not about the one that somebody starts now.
  const { kernel_id: kernelId } = await clusterOnServer(request);
  await request.post(`/gpudask/api/clusters/${kernelId}/restart`);
  await expect(toast).toBeHidden();
  await expect
    .poll(async () => (await clusterOnServer(request)).pid, { timeout: 60000 })
    .not.toBeNull();
  process.kill((await clusterOnServer(request)).pid, 'SIGKILL');
  await expect(toast).toContainText('The cluster of analysis.ipynb has failed');
  await toast.getByRole('button', { name: 'Start again' }).click();
  await page.sidebar.openTab('jupyter-gpudask-panel');
  await expect(clusterCard(page).getByText('ready')).toBeVisible({
    timeout: 60000
  });

  // With the options that it had.
  await expect(
    clusterCard(page)
      .getByRole('list', { name: 'Workers' })
      .getByRole('listitem')
  ).toHaveCount(2);
  await expect(clusterCard(page)).toContainText('CPU stand-in');

  // Nothing is told of what one does oneself.
  await clusterCard(page).getByRole('button', { name: 'Stop' }).click();
  await expect(gpuDaskPanel(page)).toContainText('has no cluster yet', {
    timeout: 20000
  });
  await expect(toast).toBeHidden();
});

test('a task that runs out of device memory is told, with what helps', async ({
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
    'analysis.ipynb: a task ran out of device memory on Worker',
    { timeout: 30000 }
  );
  await expect(toast).toHaveCount(1);
  await page.screenshot({ path: testInfo.outputPath('device-memory.png') });
});

const LACKING = [
  {
    kernel: 'without-package',
    reason: 'The kernel’s environment has no jupyter_gpudask.',
    button: 'Start with options…',
    command: /^%pip install "jupyter_gpudask\[cu13\]( @ [^"]+)?"$/
  },
  {
    kernel: 'without-gpu-packages',
    reason: 'This machine has a GPU, but this Python environment lacks CuPy',
    button: 'Change options…',
    command: /^%pip install "jupyter_gpudask\[cu13\]( @ [^"]+)?"$/
  }
];

for (const { kernel, reason, button, command } of LACKING) {
  test(`a kernel ${kernel} is told what to type`, async ({
    page,
    request,
    tmpPath
  }, testInfo) => {
    await openAnalysis(page, request, tmpPath, kernel);
    await gpuDaskPanel(page)
      .getByRole('button', { name: 'Start: analysis.ipynb' })
      .click();
    const card = clusterCard(page);
    await expect(card.getByText('failed')).toBeVisible({ timeout: 60000 });
    await expect(card).toContainText(reason.replace('’', "'"));
    await expect(card.locator('code')).toHaveText(command);
    await expect(card).not.toContainText('--');
    await page.screenshot({ path: testInfo.outputPath(`${kernel}.png`) });

    // The order that was refused is not sent again as it was.
    await card.getByRole('button', { name: button }).click();
    const dialog = page.getByRole('dialog');
    await expect(dialog.getByRole('alert')).toContainText(
      reason.replace('’', "'")
    );
    await page.screenshot({ path: testInfo.outputPath(`${kernel}-order.png`) });
    await dialog.getByRole('button', { name: 'Cancel' }).click();
  });
}
