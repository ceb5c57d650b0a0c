import js from '@eslint/js';
import jupyterPlugin from '@jupyter/eslint-plugin';
import { defineConfig } from 'eslint/config';
import prettierRecommended from 'eslint-plugin-prettier/recommended';
import globals from 'globals';
import tseslint from 'typescript-eslint';

export default defineConfig([
  {
    ignores: [
      '**/node_modules',
      '**/lib',
      '**/*.d.ts',
      '**/playwright-report',
      '**/test-results',
      'coverage',
      'labextension/src/model/openapi.ts',
      'jupyter_gpudask'
    ]
  },
  js.configs.recommended,
  tseslint.configs.recommended,
  { plugins: { jupyter: jupyterPlugin } },
  jupyterPlugin.configs.recommended,
  {
    files: ['**/*.ts', '**/*.tsx'],
    languageOptions: {
      globals: { ...globals.browser, ...globals.es2022 }
    },
    rules: {
      '@typescript-eslint/consistent-type-assertions': 'error',
      '@typescript-eslint/naming-convention': [
        'error',
        {
          selector: 'interface',
          format: ['PascalCase'],
          custom: { regex: '^I[A-Z]', match: true }
        }
      ],
      // Command ids live in a namespace beside the plugin, as in JupyterLab.
      '@typescript-eslint/no-namespace': 'off',
      curly: ['error', 'all'],
      eqeqeq: 'error',
      'prefer-arrow-callback': 'error'
    }
  },
  {
    files: ['labextension/src/**/*.ts', 'labextension/src/**/*.tsx'],
    languageOptions: {
      parserOptions: { project: 'tsconfig.test.json' }
    },
    rules: {
      '@typescript-eslint/await-thenable': 'error',
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/no-misused-promises': 'error'
    }
  },
  {
    files: ['labextension/src/plugins.ts'],
    rules: {
      // What each page needs as soon as it is laid out; dialogs and tabs are loaded when they are first opened.
      'jupyter/prefer-lazy-imports': [
        'warn',
        {
          ignoreImports: [
            './cluster/commands',
            './cluster/running',
            './components/*',
            './dashboard/dashboard',
            './dashboard/views',
            './model/*',
            './notebook/*',
            './notifications/*',
            './panel/*'
          ]
        }
      ]
    }
  },
  {
    files: ['**/__tests__/**'],
    rules: { 'jupyter/no-untranslated-string': 'off' }
  },
  {
    // Galata's menu helpers know JupyterLab's pages only.
    files: ['labextension/ui-tests/tests/notebook.spec.ts'],
    rules: { 'jupyter/galata-prefer-menu-helper': 'off' }
  },
  {
    files: ['**/*.js'],
    languageOptions: { globals: globals.node, sourceType: 'commonjs' },
    rules: { '@typescript-eslint/no-require-imports': 'off' }
  },
  {
    files: ['labextension/style/*.js'],
    languageOptions: { sourceType: 'module' }
  },
  prettierRecommended
]);
