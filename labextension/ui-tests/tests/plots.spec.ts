/**
 * The plots of Dask's dashboard: where a layout places their tabs, and their colors.
 */
import { expect, galata, test } from '@jupyterlab/galata';
import { Locator, Page } from '@playwright/test';

import {
  brightness,
  chooseAction,
  clusterCard,
  INVERTED,
  openAnalysis,
  runFromPalette,
  startOnCpu
} from './helpers';

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

test('a layout places the tabs as the settings say, names what is wrong in them, and its plots follow the theme', async ({
  page,
  request,
  tmpPath
}) => {
  await page.setViewportSize({ width: 1440, height: 900 });
  await openAnalysis(page, request, tmpPath);
  await startOnCpu(page);
  const card = clusterCard(page);
  await card.getByRole('button', { name: 'Plots: analysis.ipynb' }).click();
  let [notebook, stream, progress] = await boxes(
    page,
    'Task Stream',
    'Progress'
  );
  expectRightOf(stream, notebook);
  expectBelow(progress, stream);
  // It would be empty on the CPU.
  await expect(plot(page, 'GPU Memory')).toHaveCount(0);

  await runFromPalette(page, 'Open Layout of Dask Plots…');
  const search = page.getByPlaceholder('Search the layouts');
  await expect(search).toBeVisible();
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

  await card.getByRole('button', { name: 'Choose a plot' }).click();
  await expect(page.getByPlaceholder('Search the plots')).toBeVisible();
  await page.getByPlaceholder('Search the plots').fill('wrong');
  await page.keyboard.press('Enter');
  const toasts = page.locator('.Toastify__toast');
  await expect(toasts).toContainText(
    /The layout Wrong in the settings has plots that do not exist, .*task-steam/
  );
  await expect(toasts).toContainText('progress (memory)');
  let cpu: Box;
  await expect(async () => {
    [notebook, cpu, progress] = await boxes(page, 'CPU', 'Progress');
    expectBelow(cpu, notebook);
    expectRightOf(progress, notebook);
  }).toPass();

  await chooseAction(card, 'Close Dask Plots');
  await expect(page.locator('.jp-GpuDask-dashboard')).toHaveCount(0);
  await expect(page.locator('.jp-NotebookPanel')).toBeVisible();
  await card.getByRole('button', { name: 'Plots: analysis.ipynb' }).click();

  const tab = plot(page, 'Progress');
  const frame = tab.locator('iframe');
  const canvas = tab.frameLocator('iframe').locator('canvas');
  await expect(canvas.first()).toBeVisible();
  await expect(frame).toHaveCSS('filter', 'none');
  expect(await brightness(tab)).toBeGreaterThan(0.8);
  await page.theme.setTheme('JupyterLab Dark');
  await expect(frame).toHaveCSS('filter', INVERTED);
  await expect.poll(() => brightness(tab)).toBeLessThan(0.25);
  await page.theme.setTheme('JupyterLab Light');
  await expect(frame).toHaveCSS('filter', 'none');
  await expect.poll(() => brightness(tab)).toBeGreaterThan(0.8);
});
