/**
 * The pictures of README and docs, for film.py: node picture.mjs URL FOLDER WHAT RECORDING START END FRAMES SLOWER, with a server
 * that has `replay` among its extensions, and a notebook of the recording. WHAT is film, panel or history.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const require = createRequire(
  new URL('../../labextension/ui-tests/package.json', import.meta.url)
);
const { chromium } = require('@playwright/test');

const [url, folder, what, recording, ...numbers] = process.argv.slice(2);
const [start, end, perSecond, slower] = numbers.map(Number);
const { content } = await (await fetch(`${url}/api/contents`)).json();
const notebook = content.find(({ type }) => type === 'notebook').name;

/** Show below the cells what a kernel sent: what it had sent before at once, and the rest as slowly as the server sends its part. */
function playOutputs({ outputs, start, slower }) {
  const notebook = window.jupyterapp.shell.currentWidget.content;
  const { widgets } = notebook;
  const indices = new Map();
  const play = ({ cell, began, count, type, transient, ...content }) => {
    const { model } = widgets[cell];
    const area = model.outputs;
    const id = transient?.display_id;
    if (began) {
      widgets[cell].setPrompt('*');
      notebook.activeCellIndex = cell;
      notebook.scrollToCell(widgets[cell], 'smart');
    } else if (count) {
      model.executionCount = count;
      widgets[cell].setPrompt(`${count}`);
    } else if (type === 'update_display_data') {
      area.set(indices.get(id), { output_type: 'display_data', ...content });
    } else {
      indices.set(id, area.length);
      area.add({ output_type: type, ...content });
    }
  };
  for (const [second, output] of outputs) {
    if (second <= start) {
      play(output);
    } else {
      setTimeout(() => play(output), 1000 * slower * (second - start));
    }
  }
}

/** What the cells of the recording showed. */
const { outputs = [] } = JSON.parse(readFileSync(recording, 'utf8'));

/** Pictures in equal intervals: the panel beside the notebook. */
async function film(page) {
  const count = Math.round((end - start) * perSecond);
  await page.evaluate(playOutputs, { outputs, start, slower });
  writeFileSync(`${folder}/.begin`, ''); // replay.py waits for it
  const begin = Date.now();
  for (let number = 0; number < count; number += 1) {
    const late = begin + (1000 * slower * number) / perSecond - Date.now();
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
await first.goto(`${url}/lab/tree/${notebook}?reset`);
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
        ? { width: 1040, height: 680 }
        : { width: 1280, height: 860 },
    deviceScaleFactor: what === 'film' ? 1 : 1.5
  });
  const execute = (command, args) =>
    page.evaluate(
      ([name, given]) =>
        void window.jupyterapp.commands.execute(name, given ?? {}),
      [command, args]
    );
  await page.goto(`${url}/lab/tree/${notebook}?reset`);
  await page.waitForSelector('.jp-NotebookPanel .jp-Cell');
  await execute('apputils:change-theme', { theme: `JupyterLab ${theme}` });
  await page.waitForTimeout(4000);
  await execute('gpudask:show-panel');
  await page.waitForSelector('.jp-GpuDask-gpus');
  if (what === 'history') {
    await execute('gpudask:show-history');
    await page.waitForSelector('.jp-GpuDask-chart canvas');
    await page.selectOption('.jp-GpuDask-tabToolbar select', '60');
  }
  if (what === 'panel') {
    const shown = outputs.filter(([second]) => second <= start);
    await page.evaluate(playOutputs, { outputs: shown, start });
  }
  await page.waitForTimeout(2500);
  if (what === 'film') {
    await film(page);
  } else {
    await page.screenshot({
      path: `${folder}/${what === 'panel' ? `panel-${theme.toLowerCase()}` : what}.png`
    });
  }
  await page.close();
}
await browser.close();
