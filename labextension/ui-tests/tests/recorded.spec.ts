/**
 * What was recorded while no page was open: metrics and cells, in the history and in the card.
 */
import { expect, IJupyterLabPageFixture, test } from '@jupyterlab/galata';

import { clusterCard, runFromPalette, uploadNotebook } from './helpers';

const CELLS = [
  '%load_ext jupyter_gpudask\nimport time, dask.array as da\n' +
    'def slow(block):\n    time.sleep(1)\n    return block\n' +
    '%gpudask start --cpu --workers 2',
  '%%gpudask\nda.ones(16, chunks=1).map_blocks(slow).sum().compute()',
  '%%gpudask\nda.ones(4, chunks=1).sum().compute()\n1 / 0'
];

/** Run the cells in a kernel of a notebook that is not open. */
async function runUnseen(
  page: IJupyterLabPageFixture,
  path: string
): Promise<void> {
  await page.evaluate(
    async ({ path, sources }) => {
      const { sessions } = window.jupyterapp.serviceManager;
      const { kernel } = await sessions.startNew({
        path,
        name: path,
        type: 'notebook',
        kernel: { name: 'python3' }
      });
      for (const [index, code] of sources.entries()) {
        const content = { code, stop_on_error: false };
        const metadata = { cellId: `cell-${index}` };
        await kernel!.requestExecute(content, true, metadata).done;
      }
    },
    { path, sources: CELLS }
  );
}

test('cells that ran while no page was open are in the history and in the card, which lead to them', async ({
  page,
  request,
  tmpPath
}) => {
  const began = Date.now();
  const path = `${tmpPath}/analysis.ipynb`;
  await uploadNotebook(request, path, 'python3', '/', CELLS);
  const streams: string[] = [];
  page.on('websocket', socket => streams.push(socket.url()));
  await runUnseen(page, path);
  expect(streams.filter(url => url.includes('gpudask'))).toEqual([]);
  const ended = Date.now();
  await page.notebook.openByPath(path);
  await page.sidebar.openTab('jupyter-gpudask-panel');
  const last = clusterCard(page).getByRole('list', {
    name: 'Last cells of analysis.ipynb'
  });
  await expect(last).toContainText(/\[3\]failed after .*\[2\]\d+(\.\d)? s/);
  await runFromPalette(page, 'Show GPU History');
  const history = page.locator('#jupyter-gpudask-history');
  const cells = history.getByRole('list', { name: 'Cells' });
  await expect(cells).toContainText(/\[2\].*analysis/);
  await expect(history.getByText(/Now, \d+ (s|min) so far/)).toBeVisible();
  const csv = page.waitForEvent('download');
  await history.getByRole('button', { name: 'Save CSV' }).click();
  const stream = await (await csv).createReadStream();
  const text = (await stream.toArray()).join('');
  const between = text
    .split('\r\n')
    .map(line => Date.parse(line.slice(0, 24)))
    .filter(time => time > began && time < ended);
  expect(between.length).toBeGreaterThan(4);

  await history
    .getByRole('toolbar', { name: 'History' })
    .getByLabel('Time range')
    .selectOption('Last hour');
  await expect(cells).toContainText(/\[2\].*analysis/);
  await history
    .getByRole('toolbar', { name: 'History' })
    .getByLabel('Time range')
    .selectOption('Last 15 minutes');
  // The band of the cell leads to it, as does its number; it moves while it is looked for.
  const plot = history.locator('.u-over').first();
  const cell = page.locator('.jp-Notebook .jp-Cell.jp-mod-active');
  await expect(async () => {
    const { width } = (await plot.boundingBox())!;
    for (let x = width - 5; x > 0; x -= 8) {
      await plot.hover({ position: { x, y: 40 }, timeout: 5000 });
      if (((await plot.getAttribute('title')) ?? '').startsWith('Cell [2]')) {
        await page.mouse.down();
        await page.mouse.up();
        await expect(cell).toContainText('map_blocks', { timeout: 5000 });
        return;
      }
    }
    throw new Error('no band');
  }).toPass();
  await expect(page.locator('.jp-Notebook')).toBeVisible();
});
