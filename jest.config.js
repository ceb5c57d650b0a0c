const jestJupyterLab = require('@jupyterlab/testing/lib/jest-config');

// What node cannot load as it is published, because it is an ES module.
const esModules = [
  '@codemirror',
  '@jupyter/react-components',
  '@jupyter/web-components',
  '@jupyter/ydoc',
  '@jupyterlab',
  '@marijn',
  '@microsoft',
  'color',
  'exenv-es6',
  'lib0',
  'nanoid',
  'vscode-ws-jsonrpc',
  'y-protocols',
  'y-websocket',
  'yjs'
].join('|');

module.exports = {
  ...jestJupyterLab(__dirname),
  collectCoverageFrom: [
    'labextension/src/**/*.{ts,tsx}',
    '!labextension/src/**/*.d.ts',
    '!labextension/src/**/__tests__/**'
  ],
  coverageReporters: ['text'],
  reporters: ['default'],
  roots: ['<rootDir>/labextension/src'],
  // A machine that is busy takes long.
  testTimeout: 60 * 1000,
  testRegex: '__tests__/.*\\.spec\\.tsx?$',
  transformIgnorePatterns: [`/node_modules/(?!(${esModules})).+`]
};
