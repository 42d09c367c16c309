/** `flapd run`: the daemon from its start to its exit code. */
import type { Settings } from '../config/settings.js';
import { EmbeddedEtcd, findEtcdBinary } from '../etcd/embedded.js';
import { FileJournal } from '../journal/file-journal.js';
import type { Journal, JournalListener } from '../journal/journal.js';
import { MemoryJournal } from '../journal/memory.js';
import { type Log, openLog } from '../telemetry/log.js';
import { Daemon } from './daemon.js';
import { ExitCode } from './exit.js';

export interface RunOptions {
  /** End by itself after this; null: run until told to stop. */
  readonly forMs: number | null;
  readonly version: string;
  /** The settings as they are now, for SIGHUP. Throws what says why they are no use. */
  readonly reload: () => Settings;
}

const fatalCodes = { fenced: ExitCode.denied, bug: ExitCode.bug, journal: ExitCode.io } as const;

/** Returns the exit code. Throws where it cannot start; what is thrown says what to do. */
export async function runDaemon(settings: Settings, options: RunOptions): Promise<number> {
  const { values, sources } = settings;
  const log = openLog({ level: values['log.level'], format: values['log.format'] });
  let end: (code: number) => void = () => undefined;
  const ended = new Promise<number>((resolve) => {
    end = resolve;
  });
  let signals = 0;
  const onSignal = (signal: NodeJS.Signals): void => {
    signals++;
    log.info({ signal }, signals === 1 ? 'stopping: writing what is pending' : 'stopping at once');
    end(ExitCode.ok);
    if (signals > 1) process.exit(ExitCode.backlog);
  };
  let started: Promise<void> | null = null;
  const onHangup = (): void => {
    started?.then(
      () => reload(daemon, options.reload),
      () => undefined, // it ends
    );
  };
  // From the first moment on, before the first word: by themselves they would end the process.
  process.on('SIGHUP', onHangup);
  process.on('SIGTERM', onSignal);
  process.on('SIGINT', onSignal);
  log.info({ version: options.version, host: values.host, set: Object.fromEntries(sources) }, 'flapd starts');
  if (values['journal.dir'] === null) {
    log.warn({}, 'no journal: what is pending is lost if flapd ends unexpectedly');
  }
  for (const source of settings.ignored)
    log.debug({ source }, "a setting of Felix's that means nothing here");
  const etcd = await startEmbedded(settings, (why) => {
    log.error({ why }, 'the embedded etcd has ended by itself');
    end(ExitCode.system);
  });
  const daemon = new Daemon({
    settings: values,
    ...(etcd !== null && { etcdEndpoints: [etcd.endpoint] }),
    openJournal: (listener) => openJournal(settings, listener, log),
    version: options.version,
    log,
    onFatal: (code, why) => {
      log.fatal(
        { why },
        code === 'fenced' ? 'another flapd writes for this host: this one stops' : 'flapd cannot go on',
      );
      end(fatalCodes[code]);
    },
  });
  const timer = options.forMs === null ? null : setTimeout(() => end(ExitCode.ok), options.forMs);
  try {
    started = daemon.start();
    await Promise.race([started, ended]);
    const code = await ended;
    await started.catch(() => undefined); // what has only half started cannot be stopped
    const left =
      code === ExitCode.ok ? await daemon.stop(daemon.settings['shutdown.drain']) : await daemon.abort();
    if (code !== ExitCode.ok) return code;
    if (left === 0) {
      log.info({}, 'all is written; good-bye');
      return ExitCode.ok;
    }
    log.warn(
      { left },
      values['journal.dir'] === null
        ? 'transitions are left, and lost: there is no journal'
        : 'transitions are left in the journal for the next start',
    );
    return ExitCode.backlog;
  } catch (error) {
    await daemon.abort(); // what has started already would keep the process from ending
    throw error;
  } finally {
    if (timer !== null) clearTimeout(timer);
    process.off('SIGTERM', onSignal);
    process.off('SIGINT', onSignal);
    process.off('SIGHUP', onHangup);
    await etcd?.stop();
  }
}

async function reload(daemon: Daemon, load: () => Settings): Promise<void> {
  let loaded: Settings;
  try {
    loaded = load();
  } catch (error) {
    daemon.reloadRefused(error instanceof Error ? error.message : String(error));
    return;
  }
  await daemon.reconfigure(loaded.values);
}

function startEmbedded({ values }: Settings, onExit: (why: string) => void): Promise<EmbeddedEtcd | null> {
  const dataDir = values['etcd.embeddedDir'];
  if (dataDir === null) return Promise.resolve(null);
  return EmbeddedEtcd.start({
    binary: findEtcdBinary(),
    dataDir,
    clientPort: values['etcd.embeddedPort'],
    onExit,
  });
}

async function openJournal({ values }: Settings, listener: JournalListener, log: Log): Promise<Journal> {
  const directory = values['journal.dir'];
  if (directory === null) return new MemoryJournal(listener);
  const journal = await FileJournal.open({
    directory,
    sync: values['journal.sync'],
    syncIntervalMs: values['journal.syncInterval'],
    retainBytes: values['journal.retain'],
    bytesMax: values['journal.maxSize'],
    listener,
  });
  if (journal.cutBytes > 0) {
    log.warn(
      { bytes: journal.cutBytes },
      'the journal had a torn tail, as a power cut leaves one; nothing that was accepted is missing',
    );
  }
  return journal;
}
