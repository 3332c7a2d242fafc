/** The CommonJS build under its ES module name, so that both kinds of import share one instance. */
export * from './index.js';
