// jsdom has no clipboard, which each import of JupyterLab would report.
Object.assign(navigator, { clipboard: {} });
