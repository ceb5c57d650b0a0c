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

const base = jestJupyterLab(__dirname);

module.exports = {
  ...base,
  collectCoverageFrom: [
    'labextension/src/**/*.{ts,tsx}',
    '!labextension/src/**/*.d.ts',
    '!labextension/src/**/__tests__/**'
  ],
  coverageReporters: ['text'],
  moduleNameMapper: {
    ...base.moduleNameMapper,
    '^@jupyter/(react|web)-components$': '<rootDir>/jest.elements.js'
  },
  reporters: ['default'],
  roots: ['<rootDir>/labextension/src'],
  setupFiles: [...base.setupFiles, '<rootDir>/jest.setup.js'],
  // A machine that is busy takes long.
  testTimeout: 60 * 1000,
  transform: {
    '\\.svg$': '@jupyterlab/testing/lib/jest-raw-loader.js',
    '\\.[jt]sx?$': '<rootDir>/jest.transform.js'
  },
  testRegex: '__tests__/.*\\.spec\\.tsx?$',
  transformIgnorePatterns: [`/node_modules/(?!(${esModules})).+`]
};
