/**
 * What the build of the front end adds to that of JupyterLab: style sheets without comments and spaces.
 */
module.exports = {
  module: {
    rules: [
      {
        test: /\.css$/,
        enforce: 'pre',
        loader: 'builtin:lightningcss-loader',
        options: { minify: true }
      }
    ]
  }
};
