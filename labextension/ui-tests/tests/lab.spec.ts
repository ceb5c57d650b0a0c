import { expect, test } from '@jupyterlab/galata';

import { expectBothSections, gpuDaskPanel, runFromPalette } from './helpers';

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

for (const [name, theme] of Object.entries(THEMES)) {
  test(`the panel opens from the sidebar in the ${name} theme`, async ({
    page
  }, testInfo) => {
    await page.theme.setTheme(theme);
    await page.sidebar.openTab('jupyter-gpudask-panel');

    await expectBothSections(page);
    await page.screenshot({ path: testInfo.outputPath(`lab-${name}.png`) });
  });
}

test('the colors of the panel follow the theme', async ({ page }) => {
  await page.sidebar.openTab('jupyter-gpudask-panel');
  await page.theme.setTheme(THEMES.light);
  const light = await panelColours(page);
  await page.theme.setTheme(THEMES.dark);
  const dark = await panelColours(page);

  expect(dark.text).not.toBe(light.text);
  expect(dark.background).not.toBe(light.background);
});

test('an open panel is restored after a reload', async ({ page }) => {
  await page.sidebar.openTab('jupyter-gpudask-panel');
  await expectBothSections(page);
  // The layout is saved a little later.
  await page.waitForTimeout(1500);
  await page.reload({ waitForIsReady: false });
  await expect(gpuDaskPanel(page)).toBeVisible({ timeout: 30000 });
  await expectBothSections(page);
});

test('the palette has a command that opens the panel', async ({ page }) => {
  await expect(gpuDaskPanel(page)).toBeHidden();

  await runFromPalette(page, 'Show GPU Dask Panel');

  await expectBothSections(page);
});
