/**
 * Two notebooks that want the same GPUs, with a cluster each.
 */
import { expect, test } from '@jupyterlab/galata';
import { Locator } from '@playwright/test';

import {
  chooseAction,
  clusterCard,
  clusterOnServer,
  expectIdleKernel,
  gpuDaskPanel,
  openAnalysis,
  picture,
  setCode,
  submitTasks,
  uploadNotebook
} from './helpers';

test('each notebook has its own card, and a refused start offers what is possible', async ({
  page,
  request,
  tmpPath
}, testInfo) => {
  test.slow();
  await uploadNotebook(request, `${tmpPath}/other.ipynb`);
  await page.notebook.openByPath(`${tmpPath}/other.ipynb`);
  await expectIdleKernel(page);
  await openAnalysis(page, request, tmpPath);
  const panel = gpuDaskPanel(page);
  const dialog = page.getByRole('dialog');
  const ours = clusterCard(page);
  const other = clusterCard(page, 'other.ipynb');
  const cards = panel
    .getByRole('list', { name: 'Clusters', exact: true })
    .locator('> li');
  /** A card in one line has a menu only. */
  const stop = async (card: Locator): Promise<void> => {
    if ((await card.getAttribute('data-short')) === 'true') {
      await chooseAction(card, 'Stop Cluster');
    } else {
      await card.getByRole('button', { name: 'Stop' }).click();
    }
    await expect(card).toBeHidden();
  };
  /** Click a button of a refused start, and wait until it is over. */
  const choose = async (name: string, state = 'ready'): Promise<void> => {
    const button = ours.getByRole('button', { name });
    // A refused start has three buttons; the others are below its details.
    if (!(await button.isVisible())) {
      await ours.getByText('Details').click();
    }
    await button.click();
    await expect(ours.getByText(state)).toBeVisible();
  };
  const start = async (): Promise<void> => {
    const { kernel_id: id } = await kernelOf('analysis.ipynb');
    const data = { kernel_id: id, spec: { gpus: 'all' } };
    await request.post('/gpudask/api/clusters', { data });
    await expect(ours).toContainText(/GPU 0 is reserved by \S*other.ipynb/);
  };
  const kernelOf = async (name: string): Promise<{ kernel_id: string }> => {
    const sessions = await (await request.get('/api/sessions')).json();
    const { kernel } = sessions.find(
      ({ path }: { path: string }) => path === `${tmpPath}/${name}`
    );
    return { kernel_id: kernel.id };
  };

  await test.step('the second one starts on the GPU that the first one leaves', async () => {
    await page.activity.activateTab('other.ipynb');
    await panel.getByRole('button', { name: 'Options…: other.ipynb' }).click();
    await dialog.getByRole('checkbox', { name: '1 NVIDIA H200' }).uncheck();
    await dialog.getByRole('button', { name: 'Start' }).click();
    await expect(other.getByText('ready')).toBeVisible();

    await page.activity.activateTab('analysis.ipynb');
    await expect(panel).toContainText('analysis.ipynb has no cluster.');
    await panel.getByRole('button', { name: 'Start: analysis.ipynb' }).click();
    await expect(ours.getByText('ready')).toBeVisible();
    for (const name of ['GPU 0: other.ipynb', 'GPU 1: analysis.ipynb']) {
      await expect(panel.getByRole('button', { name })).toBeVisible();
    }
    // The cards keep their places whatever notebook is in front.
    await expect(cards.first()).toHaveAccessibleName(
      'Cluster of analysis.ipynb'
    );
    await page.activity.activateTab('other.ipynb');
    await expect(other).toHaveAttribute('data-current', 'true');
    await expect(cards.first()).toHaveAccessibleName(
      'Cluster of analysis.ipynb'
    );
  });

  await test.step('the pointer on a GPU highlights its card, and the focus in a card its GPUs', async () => {
    const row = (name: string): Locator =>
      panel
        .getByRole('listitem')
        .filter({ has: page.getByRole('button', { name }) });
    const highlighted = panel.locator('[data-related]');
    await row('GPU 1: analysis.ipynb').hover();
    await expect(highlighted).toHaveCount(1);
    await expect(ours).toHaveAttribute('data-related');
    await picture(page, testInfo, 'highlighted');
    await other.focus();
    await expect(highlighted).toHaveCount(1);
    await expect(row('GPU 0: other.ipynb')).toHaveAttribute('data-related');
  });

  await test.step('a click on the name of a cluster shows its notebook, also one that was closed', async () => {
    const shows = async (name: string): Promise<void> => {
      await clusterCard(page, name)
        .getByRole('button', { name, exact: true })
        .press('Enter');
      await expect(
        page.getByRole('main').getByRole('tab', { name, exact: true })
      ).toHaveClass(/jp-mod-current/);
    };
    await shows('analysis.ipynb');
    await page.activity.closePanel('other.ipynb');
    await shows('other.ipynb');
    await shows('analysis.ipynb');
  });

  await test.step('a restart asks, and leaves the other cluster alone', async () => {
    const pid = async (name?: string): Promise<number> =>
      (await clusterOnServer(request, name)).pid;
    await submitTasks(page, 3);
    await expect(ours.getByText('0 of 3 tasks')).toBeVisible();
    const [before, others] = [await pid(), await pid('other.ipynb')];
    await chooseAction(ours, 'Restart Cluster');
    await expect(dialog).toContainText('0 of 3 tasks are done.');
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    expect(await pid()).toBe(before);
    await chooseAction(ours, 'Restart Cluster');
    await dialog.getByRole('button', { name: 'Restart' }).click();
    await expect.poll(pid).not.toBe(before);
    await expect(ours.getByText('ready')).toBeVisible();
    expect(await pid('other.ipynb')).toBe(others);
    await stop(ours);
  });

  await test.step('a start on a reserved GPU is refused in the card and in the dialog, which keeps its height', async () => {
    await start();
    for (const width of [320, 230]) {
      await page.sidebar.setWidth(width, 'left');
      for (const theme of ['JupyterLab Dark', 'JupyterLab Light']) {
        await page.theme.setTheme(theme);
        await picture(page, testInfo, `${theme.slice(11)}-${width}`);
      }
    }
    await choose('Options…', 'failed');
    const problem = dialog
      .getByRole('group', { name: 'GPUs' })
      .getByRole('alert');
    await expect(problem).toContainText(/GPU 0 is reserved by \S+/);
    const form = dialog.locator('.jp-GpuDask-form');
    const before = await form.boundingBox();
    await dialog.getByRole('checkbox', { name: '1 NVIDIA H200' }).uncheck();
    await expect(problem).toBeHidden();
    expect((await form.boundingBox())?.height).toBe(before?.height);
    await dialog.getByRole('button', { name: 'Cancel' }).click();
  });

  await test.step('it starts on the free GPUs', async () => {
    await choose('Start on the free GPUs');
    await expect(ours).toContainText('1 × H200');
    await stop(ours);
  });

  await test.step('it starts on the CPU, which is offered in the dialog', async () => {
    await start();
    await choose('Options…', 'failed');
    await dialog.getByLabel('Runs on').selectOption('cpu');
    await dialog.getByRole('button', { name: 'Start' }).click();
    await expect(ours.getByText('ready')).toBeVisible();
    await expect(ours).toContainText('CPU cluster');
    await stop(ours);
  });

  await test.step('a refused cell waits in line, and goes on when the other one stops', async () => {
    await setCode(
      page,
      0,
      "%gpudask start --gpus all\nprint('It goes ' + 'on')"
    );
    await page.notebook.runCell(0);
    await expect(ours).toContainText(/GPU 0 is reserved by \S*other.ipynb/);
    await page.notebook.save();
    await page.reload({ waitForIsReady: false });
    await expectIdleKernel(page);
    await choose('Wait for GPUs', 'in line, place 1');
    const line = panel.getByRole('list', { name: 'In line for GPUs' });
    await expect(line.getByRole('listitem')).toHaveText('1. analysis: 2 GPUs');
    await expect(ours).toContainText(
      /Waiting for GPUs at place 1 in line\. GPU 0 is reserved by \S*other\.ipynb/
    );
    await picture(page, testInfo, 'line');
    await page.reload({ waitForIsReady: false });
    await expectIdleKernel(page);
    await stop(other);
    await expect(line).toBeHidden();
    await expect(ours.getByText('ready')).toBeVisible();
    await expect(ours).toContainText('2 × H200');
    await expect(
      page.locator('.jp-OutputArea').getByText('It goes on')
    ).toBeVisible();
    await picture(page, testInfo, 'goes-on');
    await stop(ours);
  });

  await test.step('after the GPU was freed, the card says so and starts again', async () => {
    const { kernel_id: id } = await kernelOf('other.ipynb');
    const data = { kernel_id: id, spec: { gpus: [0] } };
    await request.post('/gpudask/api/clusters', { data });
    await expect(other.getByText('idle')).toBeVisible();
    await start();
    await stop(other);
    await expect(ours).toContainText(
      'The cluster did not start because GPU 0 was reserved. It is free now.'
    );
    await choose('Start again');
    // A cluster that shares is started beside one that shares.
    await stop(ours);
    await request.post('/gpudask/api/clusters', {
      data: { kernel_id: id, spec: { gpus: [0], share: true } }
    });
    await expect(other.getByText('idle')).toBeVisible();
    // A cell that was edited since it was refused does not run.
    await setCode(page, 0, '%gpudask start --gpus all');
    await page.notebook.runCell(0);
    await expect(ours).toContainText(/GPU 0 is reserved by \S*other.ipynb/);
    await setCode(page, 0, "%gpudask start --gpus all\nprint('edi' + 'ted')");
    await choose('Share GPUs');
    await expect(ours).toContainText('2 × H200');
    await expect(page.getByText('was not run: it was changed')).toBeVisible();
    await picture(page, testInfo, 'edited');
    await expect(page.getByText('edited', { exact: true })).toBeHidden();
    await page
      .locator('.jp-GpuDask-toolbarButton')
      .filter({ visible: true })
      .getByRole('button')
      .click();
    await page.getByRole('menuitem', { name: 'Stop Cluster' }).click();
    await expect(ours).toBeHidden();
  });
});
