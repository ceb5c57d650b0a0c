/**
 * The line below a cell: it begins at the left edge of the output, and unfolds what each operation cost.
 */
import { expect, test } from '@jupyterlab/galata';
import { Locator } from '@playwright/test';
import { execFileSync } from 'child_process';
import { mkdtempSync, writeFileSync } from 'fs';
import { tmpdir } from 'os';
import { join } from 'path';

import { openAnalysis, picture, setCode, startOnCpu } from './helpers';

/** Where the content of an element begins. */
function leftOf(element: Locator): Promise<number> {
  return element.evaluate(node => {
    const { paddingLeft } = getComputedStyle(node);
    return node.getBoundingClientRect().x + parseFloat(paddingLeft);
  });
}

test('the line below a cell unfolds its operations, live, in a saved notebook and as HTML', async ({
  page,
  request,
  tmpPath
}, testInfo) => {
  await openAnalysis(page, request, tmpPath);
  await startOnCpu(page);
  await setCode(
    page,
    0,
    '%load_ext jupyter_gpudask\nimport time, dask.array as da\n' +
      'def slow(block):\n    time.sleep(0.3)\n    return block'
  );
  await page.notebook.runCell(0);
  await setCode(
    page,
    1,
    '%%gpudask\nprint("text")\n' +
      'x = da.ones((8, 8), chunks=2).map_blocks(slow)\n(x @ x.T).sum().compute()'
  );
  await page.notebook.runCell(1);
  const cell = page.locator('.jp-Notebook .jp-Cell').nth(1);
  const line = cell.locator('summary', { hasText: 'NumPy and pandas on' });
  const table = cell.locator('details pre');
  await expect(table).toBeHidden();
  await line.focus();
  await page.keyboard.press('Enter');
  await expect(table).toContainText(/operation +blocks +ran on +time/);
  await expect(table).toContainText(/slow +16 +CPU +4\.\d s/);
  const edge = await leftOf(cell.locator('pre', { hasText: /^text/ }));
  expect((await table.boundingBox())!.x).toBeCloseTo(edge, 0);
  expect((await line.boundingBox())!.x).toBeCloseTo(edge, 0);
  await picture(page, testInfo, 'operations');

  await setCode(page, 2, '%%gpudask\nprint("only text")\nx = x.persist()');
  await page.notebook.runCell(2);
  await page.notebook.save();
  const reply = await request.get(`/api/contents/${tmpPath}/analysis.ipynb`);
  const { content } = await reply.json();
  const folder = mkdtempSync(join(tmpdir(), 'gpudask-'));
  writeFileSync(join(folder, 'analysis.ipynb'), JSON.stringify(content));
  const jupyter = process.env.JUPYTER ?? 'jupyter';
  for (const template of ['lab', 'classic']) {
    execFileSync(jupyter, [
      'nbconvert',
      '--to=html',
      `--template=${template}`,
      `--output=${template}`,
      join(folder, 'analysis.ipynb')
    ]);
    await page
      .context()
      .route(`**/${template}-exported`, route =>
        route.fulfill({ path: join(folder, `${template}.html`) })
      );
    const exported = await page.context().newPage();
    await exported.goto(new URL(`/${template}-exported`, page.url()).href);
    const unfolded = exported.locator('summary', { hasText: 'on the CPU' });
    const leftOfLine = async (index: number): Promise<number> =>
      (await unfolded.nth(index).boundingBox())!.x;
    await unfolded.first().click();
    await expect(exported.locator('details pre').first()).toContainText(
      /slow +16 +CPU/
    );
    // Below a value, and below printed text.
    expect(await leftOfLine(0)).toBeCloseTo(
      await leftOf(exported.locator('pre', { hasText: /^np\.float64/ })),
      0
    );
    expect(await leftOfLine(1)).toBeCloseTo(
      await leftOf(exported.locator('pre', { hasText: /^only text/ })),
      0
    );
    await picture(exported, testInfo, `exported-${template}`);
  }
});
