/** Suites that run on any machine; jest.gpu.config.js runs the same op suites on a GPU. */
module.exports = {
  testEnvironment: 'node',
  roots: ['<rootDir>/test'],
  testMatch: ['**/*.test.ts'],
  transform: { '^.+\\.ts$': ['ts-jest', { diagnostics: false }] },
  moduleNameMapper: { '^tfjs-lm-head$': '<rootDir>/src/index.ts' },
  reporters: ['default', '<rootDir>/test/left_out_reporter.js'],
  testTimeout: 120000,
};
