/**
 * The worker thread of the simulated flapd: sends a lane's transaction at once, or the moment that the one that it follows has
 * committed; and dies with all that it has. What is said to it, and what it says, keeps its order, as in a message port.
 */
import type { TxnAnswer } from '../../../src/reporter/answers.js';
import type { Effect, Txn } from '../../../src/reporter/effects.js';
import type { World } from './world.js';

type Send = Extract<Effect, { kind: 'send' }>;
type OnAnswer = (answer: TxnAnswer) => void;

interface Turn {
  readonly attempt: number;
  state: 'waiting' | 'sent' | 'committed';
  readonly send: () => void;
  readonly answer: OnAnswer;
}

/** A request of a worker that died may lie about for so long. */
const staleMsMax = 6000;

export class ModelWorker {
  readonly #world: World;
  /** Hands a request to the network; its answer comes back to this worker. */
  readonly #transmit: (txn: Txn, answer: OnAnswer) => void;
  readonly #stale: (txn: Txn) => void;
  /** By lane: the one that was sent last, and the one that is to follow it. */
  readonly #last = new Map<number, Turn>();
  readonly #following = new Map<number, Turn & { readonly txn: Txn }>();

  /** `stale`: the same without an answer, for a worker that has died. */
  constructor(world: World, transmit: (txn: Txn, answer: OnAnswer) => void, stale: (txn: Txn) => void) {
    this.#world = world;
    this.#transmit = transmit;
    this.#stale = stale;
  }

  /** From the main thread: `onAnswer` is called there. */
  send({ txn, attempt, after }: Send, onAnswer: OnAnswer): void {
    const { clock, plan } = this.#world;
    const answer: OnAnswer = (said) => clock.after(plan.hopMs, () => onAnswer(said));
    clock.after(plan.hopMs, () => this.#take(txn, attempt, after, answer));
  }

  withdraw(lane: number, attempt: number): void {
    const { clock, plan } = this.#world;
    clock.after(plan.hopMs, () => {
      const following = this.#following.get(lane);
      if (following?.attempt !== attempt) return;
      this.#following.delete(lane);
      following.answer({ kind: 'notSent' });
    });
  }

  #take(txn: Txn, attempt: number, after: number | null, answer: OnAnswer): void {
    const { lane } = txn;
    const turn: Turn = {
      attempt,
      state: 'waiting',
      answer,
      send: () => {
        turn.state = 'sent';
        this.#last.set(lane, turn);
        this.#transmit(txn, (said) => this.#answered(lane, turn, said));
      },
    };
    const last = this.#last.get(lane);
    // Now and then there is a new worker, which does not know that one.
    const unknown = last?.attempt !== after || this.#world.random.chance(0.02);
    if (after === null || (!unknown && last!.state === 'committed')) turn.send();
    else if (unknown) answer({ kind: 'notSent' });
    else this.#following.set(lane, { ...turn, txn });
  }

  #answered(lane: number, turn: Turn, said: TxnAnswer): void {
    const { clock, random } = this.#world;
    turn.answer(said);
    if (this.#last.get(lane) !== turn) return; // of an earlier claim: nothing follows it
    if (said.kind === 'committed') turn.state = 'committed';
    else this.#last.delete(lane);
    const following = this.#following.get(lane);
    if (following === undefined) return;
    this.#following.delete(lane);
    if (said.kind === 'committed') {
      following.send();
    } else if (said.kind === 'unclear' && said.reason === 'worker') {
      // It may have had the good news before it died, and have passed it on.
      const { txn } = following;
      if (random.chance(0.5)) clock.after(random.below(staleMsMax), () => this.#stale(txn));
      following.answer(said);
    } else {
      following.answer({ kind: 'notSent' });
    }
  }
}
