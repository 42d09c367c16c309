/**
 * When to ask the kernel for everything, and whether what it answered is whole: links first, then addresses, each again
 * until the kernel says that nothing changed meanwhile (NLM_F_DUMP_INTR) and it did not give up. It has the timers,
 * and neither the socket nor the content.
 */
export type DumpKind = 'links' | 'addresses';

export interface DumpOptions {
  /** Sends the request; what comes of it is told by answered(), interrupted() and done(). */
  readonly ask: (kind: DumpKind, seq: number) => void;
  readonly begin: (kind: DumpKind) => void;
  /** What was dumped since begin() is the whole truth. */
  readonly end: (kind: DumpKind) => void;
  /** Links and addresses are both whole. */
  readonly complete: () => void;
  readonly again: (why: 'interrupted' | 'refused' | 'silent', errno: number) => void;
  readonly nowMs: () => number;
}

/** A storm overruns the buffer again and again, and a dump is the dearest of what the kernel is asked. */
const everyMs = 1000;
/** An interrupted dump is asked for again after so long, twice as long each time up to `everyMs`. */
const againAfterMs = 20;
/** A dump of which nothing comes for so long was lost. */
const silentMs = 5000;

export class Dump {
  readonly #options: DumpOptions;
  #seq = 0;
  #kind: DumpKind | null = null;
  #interrupted = false;
  #tries = 0;
  #startedAtMs = Number.NEGATIVE_INFINITY;
  #heardAtMs = 0;
  #timer: NodeJS.Timeout | null = null;

  constructor(options: DumpOptions) {
    this.#options = options;
  }

  /** Of the dump that is being answered; 0 where none is. Answers to others are left-overs. */
  get seq(): number {
    return this.#kind === null ? 0 : this.#seq;
  }

  /** Everything anew, as soon as that may be. What was being answered is no use any more. */
  request(): void {
    this.#kind = null;
    this.#tries = 0;
    this.#startIn('links', this.#startedAtMs + everyMs - this.#options.nowMs());
  }

  answered(): void {
    this.#heardAtMs = this.#options.nowMs();
  }

  interrupted(seq: number): void {
    if (seq === this.seq) this.#interrupted = true;
  }

  done(seq: number, errno: number): void {
    const kind = this.#kind;
    if (kind === null || seq !== this.#seq) return;
    this.#kind = null;
    if (this.#interrupted || errno !== 0) {
      this.#options.again(errno === 0 ? 'interrupted' : 'refused', errno);
      this.#startIn(kind, Math.min(everyMs, againAfterMs * 2 ** this.#tries++));
      return;
    }
    this.#tries = 0;
    this.#clear();
    this.#options.end(kind);
    if (kind === 'links') this.#start('addresses');
    else this.#options.complete();
  }

  stop(): void {
    this.#kind = null;
    this.#clear();
  }

  #startIn(kind: DumpKind, afterMs: number): void {
    this.#clear();
    this.#timer = setTimeout(() => this.#start(kind), Math.max(0, afterMs));
  }

  #start(kind: DumpKind): void {
    this.#kind = kind;
    this.#seq = (this.#seq % 0x7fff_ffff) + 1;
    this.#interrupted = false;
    const nowMs = this.#options.nowMs();
    if (kind === 'links') this.#startedAtMs = nowMs;
    this.#heardAtMs = nowMs;
    this.#options.begin(kind);
    this.#listen();
    this.#options.ask(kind, this.#seq);
  }

  #listen(): void {
    this.#clear();
    const leftMs = this.#heardAtMs + silentMs - this.#options.nowMs();
    if (leftMs <= 0) {
      this.#options.again('silent', 0);
      this.request();
      return;
    }
    this.#timer = setTimeout(() => this.#listen(), leftMs);
  }

  #clear(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }
}
