/**
 * The pictures of README and docs: node picture.mjs URL FOLDER [history | film SECONDS], with a server that has `replay`
 * among its extensions, and the notebook fluid-simulation.ipynb. A film is many pictures; film.py makes one file of them.
 * See docs/testing.md.
 */
import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const require = createRequire(
  new URL('../../labextension/ui-tests/package.json', import.meta.url)
);
const { chromium } = require('@playwright/test');

const [url, folder, what = 'panel', seconds] = process.argv.slice(2);

/** Pictures in equal intervals: the panel beside the notebook, and in the last third beside the history. */
async function film(page, execute) {
  const interval = 500;
  const count = Math.round((1000 * Number(seconds)) / interval);
  writeFileSync(`${folder}/.begin`, ''); // replay.py waits for it
  const begin = Date.now();
  for (let number = 0; number < count; number += 1) {
    if (number === Math.round((2 * count) / 3)) {
      await execute('gpudask:show-history');
      await page.waitForSelector('.jp-GpuDask-chart canvas');
      await page.selectOption('.jp-GpuDask-tabToolbar select', '60');
    }
    const late = begin + number * interval - Date.now();
    await page.waitForTimeout(Math.max(0, late));
    await page.screenshot({
      path: `${folder}/frame-${String(number).padStart(4, '0')}.png`
    });
  }
}

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
    viewport:
      what === 'film'
        ? { width: 1100, height: 640 }
        : { width: 1280, height: 860 },
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
  if (what === 'film') {
    await film(page, execute);
  } else {
    await page.screenshot({
      path: `${folder}/${what === 'panel' ? `panel-${theme.toLowerCase()}` : what}.png`
    });
  }
  await page.close();
}
await browser.close();
