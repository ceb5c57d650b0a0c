import { IJupyterLabPageFixture } from '@jupyterlab/galata';
import {
  APIRequestContext,
  expect,
  Locator,
  Page,
  TestInfo
} from '@playwright/test';

/** Add a picture of the page to the results of the test, to be looked at. */
export async function picture(
  page: Page,
  testInfo: TestInfo,
  name: string
): Promise<void> {
  await page.screenshot({ path: testInfo.outputPath(`${name}.png`) });
}

/** The panel of the extension. */
export function gpuDaskPanel(page: Page): Locator {
  return page.locator('#jupyter-gpudask-panel');
}

/** Check that the panel shows both sections and, in the first, the GPUs. */
export async function expectBothSections(page: Page): Promise<void> {
  const region = gpuDaskPanel(page).getByRole('region', {
    name: 'GPU Dask',
    exact: true
  });
  await expect(region).toBeVisible();
  await expect(region.locator('.lm-AccordionPanel-titleLabel')).toHaveText([
    'GPUs',
    'Clusters'
  ]);
  await expect(
    region.getByRole('meter', { name: 'GPU 0 busy' })
  ).toHaveAttribute('aria-valuetext', '37 %');
  await expect(
    region.getByRole('meter', { name: 'GPU 1 memory' })
  ).toHaveAttribute('aria-valuetext', '1.0 of 140 GiB');
  await expect(region.getByText('pid 812').first()).toBeVisible();
}

/** Open the command palette and run the command with this label. */
export async function runFromPalette(page: Page, label: string): Promise<void> {
  // A page that is connecting to its kernel takes the focus from the palette.
  await expect(async () => {
    await page.keyboard.press('Control+Shift+C');
    const search = page.getByPlaceholder('SEARCH', { exact: true });
    await search.fill(label, { timeout: 10000 });
    await page.getByRole('menuitem', { name: label }).click({ timeout: 10000 });
  }).toPass();
}

/** Create a notebook on the server, with code cells if they are given. */
export async function uploadNotebook(
  request: APIRequestContext,
  path: string,
  kernel = 'python3',
  serverUrl = '/',
  sources: string[] = []
): Promise<void> {
  // Without a kernelspec the page would ask for a kernel first.
  const kernelspec = { display_name: kernel, language: 'python', name: kernel };
  const content = {
    cells: sources.map((source, index) => ({
      id: `cell-${index}`,
      cell_type: 'code',
      source,
      metadata: {},
      outputs: [],
      execution_count: null
    })),
    metadata: { kernelspec },
    nbformat: 4,
    nbformat_minor: 5
  };
  const reply = await request.put(`${serverUrl}api/contents/${path}`, {
    data: { type: 'notebook', format: 'json', content }
  });
  expect(reply.ok()).toBe(true);
}

/**
 * Resolves when JupyterLab saves a layout that is meant; call it before the layout changes.
 *
 * @param page - a page of JupyterLab
 * @param isMeant - tests the saved layout, as JSON
 */
export async function layoutSaved(
  page: Page,
  isMeant: (layout: string) => boolean
): Promise<void> {
  await page.waitForRequest(
    request => {
      const isSave =
        request.method() === 'PUT' && request.url().includes('/api/workspaces');
      const layout = isSave && request.postDataJSON().data;
      return isMeant(JSON.stringify(layout?.['layout-restorer:data'] ?? ''));
    },
    { timeout: 0 }
  );
}

/** Wait until the kernel of the notebook is idle. */
export async function expectIdleKernel(page: Page): Promise<void> {
  // In the toolbar, which a narrow notebook shows in part, or in the status bar, which Notebook 7 lacks.
  const inToolbar = page.locator(
    '.jp-Notebook-ExecutionIndicator[data-status="idle"]'
  );
  const inStatusBar = page.locator('#jp-main-statusbar').getByText('| Idle');
  await expect(
    inToolbar.or(inStatusBar).filter({ visible: true }).first()
  ).toBeVisible();
}

/** The card of the cluster of a notebook. */
export function clusterCard(page: Page, name = 'analysis.ipynb'): Locator {
  return gpuDaskPanel(page).getByRole('listitem', {
    name: `Cluster of ${name}`
  });
}

/** Choose a command of the menu in the card of a cluster. */
export async function chooseAction(card: Locator, item: string): Promise<void> {
  const entry = card.page().getByRole('menuitem', { name: item });
  // The menu closes when JupyterLab moves the focus, as it does after a reload.
  await expect(async () => {
    if (!(await entry.isVisible())) {
      await card
        .getByRole('button', { name: 'More actions' })
        .click({ timeout: 10000 });
    }
    await entry.click({ timeout: 10000 });
  }).toPass();
}

/** The tab with the logs of the cluster of a notebook. */
export function logsTab(page: Page, name = 'analysis.ipynb'): Locator {
  return page.getByRole('tabpanel', { name: `Logs: ${name}` });
}

/** Open a notebook analysis.ipynb with an idle kernel, and the panel. */
export async function openAnalysis(
  page: IJupyterLabPageFixture,
  request: APIRequestContext,
  folder: string,
  kernel = 'python3'
): Promise<void> {
  // Not created and renamed: a kernel that starts in the meantime would keep the old name.
  await uploadNotebook(request, `${folder}/analysis.ipynb`, kernel);
  await page.notebook.openByPath(`${folder}/analysis.ipynb`);
  await expectIdleKernel(page);
  await page.sidebar.openTab('jupyter-gpudask-panel');
}

/** Start a cluster on the CPU for the current notebook, and wait until it is ready. */
export async function startOnCpu(
  page: Page,
  name = 'analysis.ipynb',
  workers = 2
): Promise<void> {
  await gpuDaskPanel(page)
    .getByRole('button', { name: `Options…: ${name}` })
    .click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Runs on').selectOption('cpu');
  await dialog.getByLabel('Workers').fill(`${workers}`);
  await dialog.getByRole('button', { name: 'Start' }).click();
  await expect(clusterCard(page, name).getByText('ready')).toBeVisible();
}

/** Put code into a cell of the visible notebook at once: Galata types each character, which took half of a test's time. */
export async function setCode(
  page: Page,
  index: number,
  code: string
): Promise<void> {
  await page.evaluate(
    ({ index, code }) => {
      const panel = [...window.jupyterapp.shell.widgets('main')].find(
        each => each.isVisible && each.hasClass('jp-NotebookPanel')
      ) as unknown as {
        content: {
          widgets: {
            model: { sharedModel: { setSource(code: string): void } };
          }[];
        };
      };
      panel.content.widgets[index].model.sharedModel.setSource(code);
    },
    { index, code }
  );
}

/** Submit tasks to the cluster of the current notebook that run longer than the test. */
export async function submitTasks(
  page: IJupyterLabPageFixture,
  count: number
): Promise<void> {
  await setCode(
    page,
    0,
    '%load_ext jupyter_gpudask\nimport time\nstarted = %gpudask start\n' +
      `waits = started.client.map(lambda _: time.sleep(600), range(${count}), pure=False)`
  );
  await page.notebook.runCell(0);
}

/** The server's state of the cluster of a notebook. */
export async function clusterOnServer(
  request: APIRequestContext,
  notebook = 'analysis.ipynb'
): Promise<{
  kernel_id: string;
  pid: number;
  state: { workers: { pid: number }[] };
}> {
  const reply = await request.get('/gpudask/api/clusters');
  const { clusters } = await reply.json();
  return clusters.find(({ name }: { name: string }) => name === notebook);
}

/** Give the page the default theme, whatever the server keeps: another test may be choosing one. */
export async function useDefaultTheme(page: Page): Promise<void> {
  await page.route(/\/api\/settings/, async route => {
    if (route.request().method() !== 'GET') {
      return route.fallback();
    }
    const response = await route.fetch();
    const json = await response.json();
    for (const each of json.settings instanceof Array
      ? json.settings
      : [json]) {
      if (each.id === '@jupyterlab/apputils-extension:themes') {
        Object.assign(each, { raw: '{}', settings: {} });
      }
    }
    await route.fulfill({ response, json });
  });
}

/** Choose a theme in the menu of Notebook 7, again if the menu was closed before a click. */
export async function chooseTheme(page: Page, name: string): Promise<void> {
  const items = page.locator('.lm-Menu-item');
  const clicks = { timeout: 10000 };
  await expect(async () => {
    await page.keyboard.press('Escape');
    await page.keyboard.press('Escape');
    await page
      .getByRole('menuitem', { name: 'Settings', exact: true })
      .click(clicks);
    await items.filter({ hasText: /^Theme$/ }).hover(clicks);
    await items.filter({ hasText: name }).first().click(clicks);
    await expect(page.locator('body')).toHaveAttribute(
      'data-jp-theme-name',
      name,
      { timeout: 10000 }
    );
  }).toPass();
  // The server keeps it; a page that is closed before has changed nothing for the next one.
  await expect
    .poll(async () => {
      const reply = await page.request.get(
        '/lab/api/settings/@jupyterlab/apputils-extension:themes'
      );
      return (await reply.json()).settings.theme ?? 'JupyterLab Light';
    })
    .toBe(name);
}

/** The filter that makes the pages of Dask dark. */
export const INVERTED = 'invert(0.88) hue-rotate(180deg)';

/** The mean brightness of what is shown, from 0 to 1. */
export async function brightness(part: Locator | Page): Promise<number> {
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
