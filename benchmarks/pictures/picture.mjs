/**
 * The pictures of README and docs: node picture.mjs URL FOLDER [history], with a server that has `replay` among its
 * extensions, and the notebook fluid-simulation.ipynb. See CONTRIBUTING.md.
 */
import { createRequire } from 'node:module';

const require = createRequire(
  new URL('../../labextension/ui-tests/package.json', import.meta.url)
);
const { chromium } = require('@playwright/test');

const [url, folder, what = 'panel'] = process.argv.slice(2);
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM_PATH ?? '/usr/bin/chromium',
  args: ['--no-sandbox']
});

// The notebook's kernel has to be there before the stream is asked for.
const first = await browser.newPage();
await first.goto(`${url}/lab/tree/fluid-simulation.ipynb?reset`);
await first.waitForSelector('.jp-NotebookPanel .jp-Cell');
await first.waitForTimeout(4000);
const news = first.getByRole('button', { name: 'No', exact: true });
if (await news.isVisible()) {
  await news.click();
  await first.waitForTimeout(1000);
}
await first.close();

for (const theme of what === 'panel' ? ['Light', 'Dark'] : ['Light']) {
  const page = await browser.newPage({
    viewport: { width: 1280, height: 860 },
    deviceScaleFactor: 1.5
  });
  const execute = (command, args) =>
    page.evaluate(
      ([name, given]) =>
        void window.jupyterapp.commands.execute(name, given ?? {}),
      [command, args]
    );
  await page.goto(`${url}/lab/tree/fluid-simulation.ipynb?reset`);
  await page.waitForSelector('.jp-NotebookPanel .jp-Cell');
  await execute('apputils:change-theme', { theme: `JupyterLab ${theme}` });
  await page.waitForTimeout(4000);
  await execute('gpudask:show-panel');
  await page.waitForSelector('.jp-GpuDask-card');
  if (what === 'history') {
    await execute('gpudask:show-history');
    await page.waitForSelector('.jp-GpuDask-chart canvas');
    await page.selectOption('.jp-GpuDask-tabToolbar select', '60');
  }
  await page.waitForTimeout(2500);
  await page.screenshot({
    path: `${folder}/${what === 'panel' ? `panel-${theme.toLowerCase()}` : what}.png`
  });
  await page.close();
}
await browser.close();
