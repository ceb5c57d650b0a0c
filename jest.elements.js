/** JupyterLab's web components without their styles and behaviour, which take a second to load for each file of tests. */
const { createElement, forwardRef } = require('react');

const element = name =>
  forwardRef((props, ref) => createElement(name, { ...props, ref }));

module.exports = {
  Button: element('jp-button'),
  Search: element('jp-search'),
  TreeItem: element('jp-tree-item'),
  TreeView: element('jp-tree-view'),
  addJupyterLabThemeChangeListener: () => undefined,
  jpButton: () => undefined,
  jpToolbar: () => undefined,
  provideJupyterDesignSystem: () => ({ register: () => undefined })
};
