// Imports point inwards (docs/design.md, section 3): the pure core knows nothing of the world around it.
const pure = '^src/(reporter|endpoints|wire)/';
/** @type {import('dependency-cruiser').IConfiguration} */
module.exports = {
  forbidden: [
    {
      name: 'no-circular',
      severity: 'error',
      from: {},
      to: { circular: true, viaOnly: { dependencyTypesNot: ['type-only'] } },
    },
    {
      name: 'core-is-pure',
      comment: 'reporter/, endpoints/ and wire/ import no I/O, no timers and nothing outside themselves',
      severity: 'error',
      from: { path: pure },
      to: { pathNot: pure },
    },
    {
      name: 'endpoints-know-no-reporter',
      severity: 'error',
      from: { path: '^src/endpoints/' },
      to: { path: '^src/reporter/' },
    },
    {
      name: 'edges-do-not-know-each-other',
      comment: 'sources, etcd, journal and telemetry meet in daemon/, check/ and cli/ only',
      severity: 'error',
      from: { path: '^src/(sources|etcd|journal|telemetry|config)/' },
      to: { path: '^src/(sources|etcd|journal|telemetry|daemon|check|cli|storm)/', pathNot: '^src/$1/' },
    },
    {
      name: 'nothing-imports-the-cli',
      severity: 'error',
      from: { pathNot: '^(src/cli|test|bench)/' },
      to: { path: '^src/cli/' },
    },
    {
      name: 'not-to-dev-dep',
      severity: 'error',
      from: { path: '^src/' },
      to: { dependencyTypes: ['npm-dev'] },
    },
    { name: 'no-unresolvable', severity: 'error', from: {}, to: { couldNotResolve: true } },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'require', 'node', 'default', 'types'],
    },
  },
};
