/** The suites of test/gpus, which start processes on several GPUs; they fail where there are fewer than two. */
module.exports = {
  ...require('./jest.config.js'),
  roots: ['<rootDir>/test/gpus'],
  testPathIgnorePatterns: ['/node_modules/'],
  reporters: ['default'],
};
