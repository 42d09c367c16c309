/** A few hosts on a network of their own, each in a network namespace, whose links can be cut. */
import { spawn } from 'node:child_process';
import { createServer, type Server, type Socket } from 'node:net';
import type { MemberHost } from './etcd.js';
import { NetNamespace } from './netns.js';

/** Carries one connection: its standard input and output are the near end. */
const carry = `
const socket = require('node:net').connect(Number(process.argv[2]), process.argv[1]);
process.stdin.pipe(socket).pipe(process.stdout);
for (const end of [socket, process.stdin, process.stdout]) end.on('error', () => process.exit());
socket.on('close', () => process.exit());`;

export class Network {
  readonly hosts: readonly MemberHost[];
  readonly #bridge: NetNamespace;
  readonly #gates: { server: Server; sockets: Set<Socket> }[] = [];

  private constructor(bridge: NetNamespace, hosts: readonly MemberHost[]) {
    this.#bridge = bridge;
    this.hosts = hosts;
  }

  static async create(size: number): Promise<Network> {
    const bridge = await NetNamespace.create();
    bridge.ip('link add br0 type bridge');
    bridge.ip('link set br0 up');
    const hosts: MemberHost[] = [];
    for (let n = 0; n < size; n++) {
      const namespace = await NetNamespace.create();
      const address = `10.0.0.${n + 1}`;
      bridge.ip(`link add port${n} type veth peer name eth0 netns ${namespace.pid}`);
      bridge.ip(`link set port${n} master br0 up`);
      namespace.ip(`addr add ${address}/24 dev eth0`);
      namespace.ip('link set eth0 up');
      namespace.exec('nft', 'add table inet cut');
      namespace.exec('nft', 'add chain inet cut in { type filter hook input priority 0; }');
      hosts.push({ namespace, address });
    }
    return new Network(bridge, hosts);
  }

  /** What the one sends does not reach the other; what the other sends does. */
  drop(from: MemberHost, to: MemberHost): void {
    to.namespace.exec('nft', `add rule inet cut in ip saddr ${from.address} drop`);
  }

  /** No host of the one side reaches one of the other. */
  part(side: readonly MemberHost[], other: readonly MemberHost[]): void {
    for (const a of side) {
      for (const b of other) {
        this.drop(a, b);
        this.drop(b, a);
      }
    }
  }

  /** Whether a connection from the one host to a port of the other comes about within a second. */
  reaches(from: MemberHost, to: MemberHost, port: number): boolean {
    try {
      from.namespace.exec('timeout', '1', 'bash', '-c', `</dev/tcp/${to.address}/${port}`);
      return true;
    } catch {
      return false;
    }
  }

  /** All reach all again. */
  heal(): void {
    for (const { namespace } of this.hosts) namespace.exec('nft', 'flush chain inet cut in');
  }

  /** Where a port of a host can be reached from outside, whatever is cut: an address on the loopback. */
  async gate({ namespace, address }: MemberHost, port: number): Promise<string> {
    const sockets = new Set<Socket>();
    const server = createServer((socket) => {
      const [enter, ...rest] = [...namespace.enter, process.execPath, '-e', carry, address, String(port)];
      const child = spawn(enter!, rest, { stdio: ['pipe', 'pipe', 'inherit'] });
      sockets.add(socket);
      const end = (): void => {
        child.kill('SIGKILL');
        socket.destroy();
        sockets.delete(socket);
      };
      child.once('exit', end);
      child.stdin.on('error', end);
      socket.on('error', end);
      socket.on('close', end);
      socket.pipe(child.stdin);
      child.stdout.pipe(socket);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    this.#gates.push({ server, sockets });
    const own = server.address();
    if (own === null || typeof own === 'string') throw new Error('the gate has no port');
    return `http://127.0.0.1:${own.port}`;
  }

  async close(): Promise<void> {
    for (const { server, sockets } of this.#gates) {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    }
    await Promise.all([...this.hosts.map(({ namespace }) => namespace.close()), this.#bridge.close()]);
  }
}
