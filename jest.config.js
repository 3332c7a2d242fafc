/** Suites that run on any machine; jest.gpu.config.js runs the same op suites on a GPU, and jest.gpus.config.js those for several. */
module.exports = {
  testEnvironment: 'node',
  roots: ['<rootDir>/test'],
  testMatch: ['**/*.test.ts'],
  testPathIgnorePatterns: ['/node_modules/', '<rootDir>/test/gpus/'],
  transform: { '^.+\\.ts$': ['ts-jest', { diagnostics: false }] },
  moduleNameMapper: { '^tfjs-lm-head$': '<rootDir>/src/index.ts' },
  reporters: ['default', '<rootDir>/test/left_out_reporter.js'],
  testTimeout: 120000,
};
