/** Which pictures there are. The names of their files are links in the docs. */
import type { BarChart } from './bars.js';
import type { LineChart, Series } from './lines.js';

const flapd = '#2b6cb0';
const baseline = '#a0aec0';
const shades = { p50: '#90cdf4', p90: '#4299e1', p99: '#2b6cb0', max: '#1a365d' } as const;

/** A storm of 1,000 endpoints at each point unless x is their number: what it reaches, and what that costs. */
function storms(title: string, curve: string, xLabel: string): LineChart {
  const series = (field: string, label: string): Series[] => [{ curve, field, label, color: flapd }];
  return {
    kind: 'lines',
    title,
    x: { label: xLabel, log: true },
    panels: [
      { label: 'transitions/s', log: false, series: series('y', 'committed') },
      {
        label: 'CPU us a transition',
        log: false,
        series: series('cpuMicros', 'main thread, workers, V8'),
      },
    ],
  };
}

function percentiles(curve: string): Series[] {
  return Object.entries(shades).map(([field, color]) => ({ curve, field, label: field, color }));
}

export const charts: Readonly<Record<string, BarChart | LineChart>> = {
  'throughput.svg': {
    kind: 'bars',
    title: 'Writes a second, 1,000 endpoints',
    unit: 'writes/s',
    bars: [
      { figure: 'ceiling at 127, writes/s', label: 'ceiling, 127 a transaction', color: baseline },
      { figure: 'flapd, transitions/s', label: 'flapd, 127 a transaction', color: flapd },
      { figure: 'ceiling at 5, writes/s', label: 'ceiling, 5 a transaction', color: baseline },
      { figure: 'flapd at 5, transitions/s', label: 'flapd, 5 a transaction (default)', color: flapd },
      { figure: 'putPerEvent, writes/s', label: 'put per event, 100 in flight', color: baseline },
      { figure: 'felixSerial, writes/s', label: 'one after another, as Felix', color: baseline },
    ],
  },
  'cpu.svg': {
    kind: 'bars',
    title: 'CPU of each write, without etcd’s',
    unit: 'us of CPU',
    bars: [
      { figure: 'ceiling at 127, CPU us', label: 'ceiling, 127 a transaction', color: baseline },
      { figure: 'flapd, CPU us', label: 'flapd, 127 a transaction', color: flapd },
      { figure: 'flapd, 100000 endpoints, CPU us', label: 'flapd, 100,000 endpoints', color: flapd },
      { figure: 'ceiling at 5, CPU us', label: 'ceiling, 5 a transaction', color: baseline },
      { figure: 'flapd at 5, CPU us', label: 'flapd, 5 a transaction (default)', color: flapd },
      { figure: 'putPerEvent, CPU us', label: 'put per event', color: baseline },
      { figure: 'felixSerial, CPU us', label: 'one after another, as Felix', color: baseline },
    ],
  },
  'profile.svg': {
    kind: 'bars',
    title: 'Who needs the processor in a storm, 127 a transaction',
    unit: 'us of CPU a transition',
    bars: [
      { figure: 'flapd, etcd, CPU us', label: 'etcd', color: baseline },
      { figure: 'flapd, main thread, CPU us', label: 'flapd’s main thread', color: flapd },
      { figure: 'flapd, worker threads, CPU us', label: 'flapd’s worker threads', color: flapd },
      { figure: 'flapd, other threads, CPU us', label: 'V8’s and libuv’s threads', color: flapd },
      { figure: 'flapd, feeder, CPU us', label: 'who feeds it', color: baseline },
    ],
  },
  'netlink.svg': {
    kind: 'bars',
    title: 'CPU of each link message, interfaces flapping',
    unit: 'us of CPU; of 10,000 a second: percent of a core',
    bars: [
      { figure: 'netlink, main thread, CPU us', label: 'flapd’s main thread', color: flapd },
      { figure: 'netlink, process, CPU us', label: 'all threads of flapd', color: flapd },
      { figure: 'netlink, reader, CPU us', label: 'the netlink reader’s process', color: baseline },
    ],
  },
  'latency.svg': {
    kind: 'lines',
    title: 'Latency: flapd, from told to seen in etcd (left), and bare puts (right)',
    x: { label: 'transitions or puts a second, 100 endpoints in turn', log: true },
    panels: [
      { label: 'flapd, ms', log: true, series: percentiles('latency') },
      { label: 'bare put, ms', log: true, series: percentiles('latencyOfBarePuts') },
    ],
  },
  'endpoints.svg': storms('Against the number of endpoints', 'endpoints', 'endpoints'),
  'operations.svg': storms(
    'Against the size of a transaction',
    'operations',
    'operations a transaction (txn.maxOps)',
  ),
  'watch-bytes.svg': storms(
    'Against what a watcher takes at once',
    'watchBytes',
    'bytes (txn.watchBytesMax; its default is 2,000)',
  ),
  'lanes.svg': storms('Against transactions in flight', 'lanes', 'lanes'),
  'workers.svg': storms('Against worker threads', 'workers', 'workers'),
  'drain.svg': {
    kind: 'lines',
    title: 'A backlog: etcd stands still until 0 s, transitions keep coming',
    x: { label: 'seconds since etcd went on', log: false },
    panels: [
      {
        label: 'transitions',
        log: false,
        series: [
          { curve: 'drain', field: 'accepted', label: 'accepted so far', color: baseline },
          { curve: 'drain', field: 'y', label: 'pending', color: flapd },
        ],
      },
    ],
  },
};
