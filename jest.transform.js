/** Translates TypeScript and ES modules with the compiler of the build, without checking types: `jlpm lint:check` does that. */
const { createHash } = require('crypto');

const { experiments, rspackVersion } = require('@rspack/core');

module.exports = {
  getCacheKey: (source, path, { configString }) =>
    createHash('md5')
      .update([source, path, configString, rspackVersion].join('\0'))
      .digest('hex'),
  process: (source, path) =>
    experiments.swc.transformSync(source, {
      filename: path,
      module: { type: 'commonjs' },
      jsc: {
        target: 'es2022',
        parser: /\.tsx?$/.test(path)
          ? { syntax: 'typescript', tsx: path.endsWith('x') }
          : { syntax: 'ecmascript' }
      },
      sourceMaps: 'inline',
      swcrc: false
    })
};
