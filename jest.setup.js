// jsdom has no clipboard, which each import of JupyterLab would report.
Object.assign(navigator, { clipboard: {} });

// jsdom compares each rule of the browser's style sheet for each call, and Lumino calls it for each widget that it fits, which took
// a third of the time of all tests. No test has a style sheet.
globalThis.getComputedStyle = node => node.style;

// Frames follow each other at once, and not 60 times a second.
globalThis.requestAnimationFrame = callback =>
  setTimeout(() => callback(performance.now()));
globalThis.cancelAnimationFrame = clearTimeout;
