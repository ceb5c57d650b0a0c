/**
 * The plots of Dask's dashboard: where a layout places their tabs, and their colors.
 */
import { expect, galata, test } from '@jupyterlab/galata';
import { Locator, Page, test as plainTest } from '@playwright/test';

import {
  chooseAction,
  chooseTheme,
  clusterCard,
  expectIdleKernel,
  gpuDaskPanel,
  openAnalysis,
  runFromPalette,
  startOnCpu,
  uploadNotebook
} from './helpers';

const INVERTED = 'invert(0.88) hue-rotate(180deg)';

type Box = NonNullable<Awaited<ReturnType<Locator['boundingBox']>>>;

/** The tab with a plot. */
function plot(page: Page, title: string): Locator {
  return page.getByRole('tabpanel', {
    name: `${title}: analysis.ipynb`,
    exact: true
  });
}

/** The positions of the notebook and of plots, as soon as all are shown. */
async function boxes(page: Page, ...titles: string[]): Promise<Box[]> {
  const shown = [
    page.locator('.jp-NotebookPanel'),
    ...titles.map(title => plot(page, title))
  ];
  for (const each of shown) {
    await expect(each).toBeVisible();
  }
  return Promise.all(
    shown.map(async each => (await each.boundingBox()) as Box)
  );
}

/** Pixels between a tab and the one beside it, and for the bar with the names of the tabs above it. */
const GAP = 60;

function expectRightOf(one: Box, other: Box): void {
  expect(one.x).toBeGreaterThanOrEqual(other.x + other.width);
  expect(one.x - other.x - other.width).toBeLessThan(GAP);
}

function expectBelow(one: Box, other: Box): void {
  expect(one.y).toBeGreaterThanOrEqual(other.y + other.height);
  expect(one.y - other.y - other.height).toBeLessThan(GAP);
  expect(Math.abs(one.x - other.x)).toBeLessThan(2);
}

/** The mean brightness of what is shown, from 0 to 1. */
async function brightness(part: Locator | Page): Promise<number> {
  const png = (await part.screenshot()).toString('base64');
  const page = 'page' in part ? part.page() : part;
  return page.evaluate(async data => {
    const image = new Image();
    image.src = `data:image/png;base64,${data}`;
    await image.decode();
    const canvas = new OffscreenCanvas(image.width, image.height);
    const context = canvas.getContext('2d');
    if (!context) {
      throw new Error('The page has no canvas.');
    }
    context.drawImage(image, 0, 0);
    const { data: pixels } = context.getImageData(
      0,
      0,
      image.width,
      image.height
    );
    let sum = 0;
    for (let i = 0; i < pixels.length; i += 4) {
      sum += pixels[i] + pixels[i + 1] + pixels[i + 2];
    }
    return sum / (pixels.length / 4) / 3 / 255;
  }, png);
}

test.describe('in JupyterLab', () => {
  test.use({
    mockSettings: {
      ...galata.DEFAULT_SETTINGS,
      'jupyter-gpudask:settings': {
        layouts: [
          {
            // As in the settings of dask-labextension.
            name: 'Workers',
            plots: {
              'individual-task-stream': { mode: 'split-right', ref: null },
              'individual-workers-memory': {
                mode: 'split-bottom',
                ref: 'individual-task-stream'
              },
              'individual-progress': {
                mode: 'split-right',
                ref: 'individual-workers-memory'
              }
            }
          },
          {
            name: 'Wrong',
            plots: {
              cpu: { mode: 'split-bottom' },
              'task-steam': { mode: 'split-right', ref: 'cpu' },
              progress: { mode: 'split-right', ref: 'memory' }
            }
          }
        ]
      }
    }
  });

  test.beforeEach(async ({ page, request, tmpPath }) => {
    await page.setViewportSize({ width: 1440, height: 900 });
    await openAnalysis(page, request, tmpPath);
    await startOnCpu(page);
  });

  test('a layout places the tabs as the settings say, and names what is wrong in them', async ({
    page
  }, testInfo) => {
    const card = clusterCard(page);
    await card.getByRole('button', { name: 'Plots: analysis.ipynb' }).click();
    let [notebook, stream, progress] = await boxes(
      page,
      'Task Stream',
      'Progress'
    );
    expectRightOf(stream, notebook);
    expectBelow(progress, stream);
    await page.screenshot({ path: testInfo.outputPath('default.png') });
    // It would be empty on the CPU.
    await expect(plot(page, 'GPU Memory')).toHaveCount(0);

    await chooseAction(card, 'Open Layout of Dask Plots');
    const search = page.getByPlaceholder('Search the layouts');
    await expect(search).toBeVisible();
    await page.screenshot({ path: testInfo.outputPath('layouts.png') });
    await search.fill('work');
    await page.keyboard.press('Enter');
    await expect(plot(page, 'Workers Memory')).toBeVisible();
    // The tabs are moved one after the other.
    let memory: Box;
    await expect(async () => {
      [notebook, stream, memory, progress] = await boxes(
        page,
        'Task Stream',
        'Workers Memory',
        'Progress'
      );
      expectRightOf(stream, notebook);
      expectBelow(memory, stream);
      expectRightOf(progress, memory);
      expect(Math.abs(progress.y - memory.y)).toBeLessThan(2);
    }).toPass();
    const canvas = plot(page, 'Progress')
      .frameLocator('iframe')
      .locator('canvas');
    await expect(canvas.first()).toBeVisible();
    await page.screenshot({ path: testInfo.outputPath('workers.png') });

    await card.getByRole('button', { name: 'Choose a plot' }).click();
    await expect(page.getByPlaceholder('Search the plots')).toBeVisible();
    await page.screenshot({ path: testInfo.outputPath('plots.png') });
    await page.getByPlaceholder('Search the plots').fill('wrong');
    await page.keyboard.press('Enter');
    const toasts = page.locator('.Toastify__toast');
    // The last one comes first.
    await expect(toasts).toContainText([
      'The layout Wrong cannot place progress beside memory.',
      'The layout Wrong names plots that Dask does not have: task-steam.'
    ]);
    let cpu: Box;
    await expect(async () => {
      [notebook, cpu, progress] = await boxes(page, 'CPU', 'Progress');
      expectBelow(cpu, notebook);
      expectRightOf(progress, notebook);
    }).toPass();
    await page.screenshot({ path: testInfo.outputPath('wrong.png') });

    await chooseAction(card, 'Close Dask Plots');
    await expect(page.locator('.jp-GpuDask-dashboard')).toHaveCount(0);
    await expect(page.locator('.jp-NotebookPanel')).toBeVisible();
    // They are opened again as they were.
    await card.getByRole('button', { name: 'Plots: analysis.ipynb' }).click();
    await expect(async () => {
      [notebook, cpu, progress] = await boxes(page, 'CPU', 'Progress');
      expectBelow(cpu, notebook);
      expectRightOf(progress, notebook);
    }).toPass();
    await page.screenshot({ path: testInfo.outputPath('again.png') });
  });

  test('the pages of Dask are dark in a dark theme, and light again in a light one', async ({
    page
  }, testInfo) => {
    await clusterCard(page)
      .getByRole('button', { name: 'Plots: analysis.ipynb' })
      .click();
    const tab = plot(page, 'Progress');
    const frame = tab.locator('iframe');
    const canvas = tab.frameLocator('iframe').locator('canvas');
    await expect(canvas.first()).toBeVisible();
    await expect(frame).toHaveCSS('filter', 'none');
    expect(await brightness(tab)).toBeGreaterThan(0.8);
    await page.theme.setTheme('JupyterLab Dark');
    await expect(frame).toHaveCSS('filter', INVERTED);
    await expect.poll(() => brightness(tab)).toBeLessThan(0.25);
    await page.screenshot({ path: testInfo.outputPath('dark.png') });
    await page.theme.setTheme('JupyterLab Light');
    await expect(frame).toHaveCSS('filter', 'none');
    await expect.poll(() => brightness(tab)).toBeGreaterThan(0.8);
  });
});

plainTest(
  'the pages of Dask that Notebook 7 opens have its theme',
  async ({ page, request }, testInfo) => {
    await uploadNotebook(request, 'analysis.ipynb');
    await page.goto('/notebooks/analysis.ipynb');
    await expectIdleKernel(page);
    await runFromPalette(page, 'Show GPU Dask Panel');
    await startOnCpu(page);
    try {
      for (const isDark of [false, true]) {
        await chooseTheme(page, `JupyterLab ${isDark ? 'Dark' : 'Light'}`);
        const opened = page.context().waitForEvent('page');
        await gpuDaskPanel(page)
          .getByRole('button', { name: 'Plots: analysis.ipynb' })
          .click();
        const dashboard = await opened;
        await expect(dashboard.locator('canvas').first()).toBeVisible();
        await expect(dashboard.locator('html')).toHaveCSS(
          'filter',
          isDark ? INVERTED : 'none'
        );
        await expect
          .poll(async () => (await brightness(dashboard)) < 0.3)
          .toBe(isDark);
        await dashboard.screenshot({
          path: testInfo.outputPath(isDark ? 'dark.png' : 'light.png')
        });
        await dashboard.close();
      }
    } finally {
      // The server keeps it, and the other tests have the same server.
      await chooseTheme(page, 'JupyterLab Light');
    }
  }
);

plainTest.afterEach(async ({ request }) => {
  const sessions = await (await request.get('/api/sessions')).json();
  for (const { kernel, path } of sessions) {
    if (path === 'analysis.ipynb') {
      await request.delete(`/api/kernels/${kernel.id}`);
      await request.delete(`/api/contents/${path}`);
    }
  }
});
