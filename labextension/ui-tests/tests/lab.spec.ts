import { expect, test } from '@jupyterlab/galata';

import {
  expectBothSections,
  gpuDaskPanel,
  layoutSaved,
  runFromPalette
} from './helpers';

const THEMES = {
  light: 'JupyterLab Light',
  dark: 'JupyterLab Dark'
};

/** The colors of the text and of its background, as "rgb(...)". */
async function panelColours(
  page: Parameters<typeof gpuDaskPanel>[0]
): Promise<{ text: string; background: string }> {
  return gpuDaskPanel(page).evaluate(node => {
    const style = getComputedStyle(node);
    return { text: style.color, background: style.backgroundColor };
  });
}

test('the panel opens from the sidebar, and its colors follow the theme', async ({
  page
}, testInfo) => {
  await page.sidebar.openTab('jupyter-gpudask-panel');
  const colors = [];
  for (const [name, theme] of Object.entries(THEMES)) {
    await page.theme.setTheme(theme);
    await expectBothSections(page);
    await page.screenshot({ path: testInfo.outputPath(`lab-${name}.png`) });
    colors.push(await panelColours(page));
  }
  const [light, dark] = colors;
  expect(dark.text).not.toBe(light.text);
  expect(dark.background).not.toBe(light.background);
});

test('the panel opens from the palette, and is restored after a reload', async ({
  page
}) => {
  const saved = layoutSaved(page, layout =>
    layout.includes('"current":"jupyter-gpudask-panel"')
  );
  await expect(gpuDaskPanel(page)).toBeHidden();
  await runFromPalette(page, 'Show GPU Dask Panel');
  await expectBothSections(page);
  await saved;
  await page.reload({ waitForIsReady: false });
  await expect(gpuDaskPanel(page)).toBeVisible();
  await expectBothSections(page);
});

test('the icon is inverted in the selected line of the palette', async ({
  page
}, testInfo) => {
  await page.theme.setLightTheme();
  await page.keyboard.press('Control+Shift+C');
  await page
    .getByPlaceholder('SEARCH', { exact: true })
    .fill('Show GPU Dask Panel');
  const line = page.locator('.lm-CommandPalette-item.lm-mod-active');
  await expect(line).toContainText('Show GPU Dask Panel');
  await page.screenshot({ path: testInfo.outputPath('palette.png') });
  await expect(line.locator('svg [fill]').first()).toHaveCSS(
    'fill',
    'rgb(255, 255, 255)'
  );
});
