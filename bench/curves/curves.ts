/** How flapd's cost and speed go with what can be turned: one storm for each point, on the same etcd as all the rest. */
import type { Bed } from '../macro/bed.js';
import { percentilesOf } from '../macro/percentiles.js';
import type { CurveSizes } from '../sizes.js';
import { drain } from './drain.js';

/** `y` is the figure that the curve is about; what else was seen there stands beside it. */
export interface Point {
  readonly x: number;
  readonly y: number;
  readonly [also: string]: number;
}

export type CurveName =
  | 'endpoints'
  | 'operations'
  | 'watchBytes'
  | 'lanes'
  | 'workers'
  | 'latency'
  | 'latencyOfBarePuts'
  | 'drain';

export type Curves = Readonly<Record<CurveName, readonly Point[]>>;

const warm = 20_000;
const endpointsOfLatency = 100;

export async function measureCurves(bed: Bed, sizes: CurveSizes): Promise<Curves> {
  const bySetting = (name: string, setting: string, values: readonly number[]): Promise<Point[]> =>
    each(values, (value) => storm(bed, sizes, name, value, 1000, { [setting]: String(value) }));
  return {
    endpoints: await each(sizes.endpoints, (endpoints) =>
      storm(bed, sizes, 'endpoints', endpoints, endpoints, {}),
    ),
    operations: await bySetting('operations a transaction', 'txn.maxOps', sizes.operations),
    watchBytes: await bySetting('txn.watchBytesMax', 'txn.watchBytesMax', sizes.watchBytes),
    lanes: await bySetting('lanes', 'lanes', sizes.lanes),
    workers: await bySetting('workers', 'workers', sizes.workers),
    latency: await each(sizes.latency.perSecond, (perSecond) => latency(bed, sizes, perSecond)),
    latencyOfBarePuts: await each(sizes.latency.perSecond, async (perSecond) => {
      const { seconds } = sizes.latency;
      const { latencyMs } = await bed.load({
        mode: 'bare',
        endpoints: endpointsOfLatency,
        seconds,
        perSecond,
      });
      bed.progress(`  bare puts at ${perSecond}/s: p99 ${latencyMs.p99.toFixed(2)} ms`);
      return { x: perSecond, y: latencyMs.p50, ...latencyMs };
    }),
    drain: await drain(bed, sizes.drain),
  };
}

/** One after another: they would share two cores. */
async function each(values: readonly number[], measure: (value: number) => Promise<Point>): Promise<Point[]> {
  const points: Point[] = [];
  for (const value of values) points.push(await measure(value));
  return points;
}

async function storm(
  bed: Bed,
  { seconds }: CurveSizes,
  name: string,
  x: number,
  endpoints: number,
  settings: Readonly<Record<string, string>>,
): Promise<Point> {
  const part = Math.min(1, seconds);
  const { transitionsPerSecond, cpuMicrosPerTransition, rssMiB } = await bed.storm({
    endpoints,
    warm: warm * part,
    transitions: { seconds },
    settings,
  });
  bed.progress(
    `  ${x} ${name}: ${transitionsPerSecond.toFixed(0)}/s, ${cpuMicrosPerTransition.toFixed(1)} us each`,
  );
  return { x, y: transitionsPerSecond, cpuMicros: cpuMicrosPerTransition, rssMiB };
}

function latency(bed: Bed, { latency: { seconds } }: CurveSizes, perSecond: number): Promise<Point> {
  return bed.subject(endpointsOfLatency, {}, async (subject) => {
    await subject.latencies(endpointsOfLatency * 2, 1000);
    const count = Math.max(20, Math.round(perSecond * seconds));
    const percentiles = percentilesOf((await subject.latencies(count, perSecond)).fromTold);
    bed.progress(`  flapd at ${perSecond}/s: p99 ${percentiles.p99.toFixed(2)} ms`);
    return { x: perSecond, y: percentiles.p50, ...percentiles };
  });
}
