/**
 * Dates in a browser whose language is not that of JupyterLab.
 */
import { expect, test } from '@jupyterlab/galata';

import { runFromPalette } from './helpers';

test.use({ locale: 'de-DE' });

test('dates are English in an English JupyterLab in a German browser', async ({
  page
}, testInfo) => {
  await runFromPalette(page, 'Show GPU History');
  const title = page.locator('#jupyter-gpudask-history h2');
  await expect(title).toHaveText(
    /^GPU history: [A-Z][a-z]{2} \d{1,2}, \d{4}, \d\d:\d\d:\d\d/
  );
  await page.screenshot({ path: testInfo.outputPath('english.png') });
});
