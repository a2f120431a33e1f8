/**
 * Who the client is: the peer of the connection, or an address that trusted proxies name. The left
 * part of `X-Forwarded-For` is whatever the client wrote, so it is never believed.
 */

import { refused } from "./errors.js";

export interface ClientAddressOptions {
  /** Addresses or ranges of your proxies: `["10.0.0.0/8"]`. */
  readonly behind?: readonly string[];
  /** So many proxies, for a server that is reached only through them. */
  readonly hops?: number;
  /** How many bits of an IPv6 address identify one client. Default 64. */
  readonly ipv6Prefix?: number;
}

/** An address as bits: 32 or 128 of them. */
interface Address {
  readonly bits: 32 | 128;
  readonly value: bigint;
}

interface Range {
  readonly address: Address;
  readonly prefix: number;
}

/** Finds the client by its peer and the value of `X-Forwarded-For`; undefined if it is not known. */
export function clientAddress(
  options: ClientAddressOptions = {},
): (peer: string | undefined, forwarded: string | undefined) => string | undefined {
  const { behind, hops, ipv6Prefix = 64 } = options;
  if (behind !== undefined && hops !== undefined) {
    throw refused("behind and hops: only one of them may be given");
  }
  if (hops !== undefined && !(Number.isInteger(hops) && hops > 0)) {
    throw refused(`hops ${hops}: must be at least 1`);
  }
  if (!(Number.isInteger(ipv6Prefix) && ipv6Prefix >= 0 && ipv6Prefix <= 128)) {
    throw refused(`ipv6Prefix ${ipv6Prefix}: must be from 0 to 128`);
  }
  const proxies = behind?.map(rangeOf);
  return (peer, forwarded) => {
    const found = find(peer, (forwarded ?? "").split(","), proxies, hops);
    return found && shown(found, ipv6Prefix);
  };
}

function find(
  peer: string | undefined,
  entries: string[],
  proxies: readonly Range[] | undefined,
  hops: number | undefined,
): Address | undefined {
  const fromTheRight = entries.reverse().map((entry) => parse(entry.trim()));
  if (hops !== undefined) return fromTheRight[hops - 1];
  let address = peer === undefined ? undefined : parse(peer);
  if (proxies === undefined || address === undefined) return address;
  const hasEntries = entries.length > 1 || entries[0] !== "";
  for (const next of hasEntries ? fromTheRight : []) {
    const known: Address = address;
    if (!proxies.some((range) => contains(range, known))) break;
    // A trusted proxy does not know its client, so the address is unknown.
    if (next === undefined) return undefined;
    address = next;
  }
  return address;
}

function rangeOf(text: string): Range {
  const [start = "", prefix] = text.split("/");
  const address = parse(start);
  const bits = prefix === undefined ? address?.bits : /^\d+$/.test(prefix) ? Number(prefix) : undefined;
  if (address === undefined || bits === undefined || bits > address.bits) {
    throw refused(`proxy ${text}: must be an address or a range such as 10.0.0.0/8`);
  }
  return { address, prefix: bits };
}

function contains({ address, prefix }: Range, other: Address): boolean {
  return address.bits === other.bits && masked(address, prefix) === masked(other, prefix);
}

function masked({ bits, value }: Address, prefix: number): bigint {
  const shift = BigInt(bits - Math.min(prefix, bits));
  return (value >> shift) << shift;
}

/** An address, alone or with a port. An IPv4 address that is written as IPv6 is the IPv4 address. */
function parse(text: string): Address | undefined {
  const bracketed = /^\[([^\]]+)\](?::\d+)?$/.exec(text);
  if (bracketed) return parse6(bracketed[1] ?? "");
  return parse4(text.replace(/^(\d+\.\d+\.\d+\.\d+):\d+$/, "$1")) ?? parse6(text);
}

function parse4(text: string): Address | undefined {
  const parts = text.split(".");
  const isPart = (part: string) => /^(0|[1-9]\d{0,2})$/.test(part) && Number(part) < 256;
  if (parts.length !== 4 || !parts.every(isPart)) return undefined;
  return { bits: 32, value: parts.reduce((sum, part) => (sum << 8n) | BigInt(part), 0n) };
}

function parse6(text: string): Address | undefined {
  const quad = /^(.*:)(\d+\.\d+\.\d+\.\d+)$/.exec(text);
  const v4 = quad ? parse4(quad[2] ?? "") : undefined;
  if (quad && v4 === undefined) return undefined;
  const whole = quad && v4 ? `${quad[1]}${(v4.value >> 16n).toString(16)}:${(v4.value & 0xffffn).toString(16)}` : text;
  const halves = whole.split("::");
  if (halves.length > 2) return undefined;
  const groups = halves.map((half) => (half === "" ? [] : half.split(":")));
  const count = groups.reduce((sum, half) => sum + half.length, 0);
  if (!groups.flat().every((group) => /^[0-9a-f]{1,4}$/i.test(group))) return undefined;
  if (halves.length === 1 ? count !== 8 : count > 7) return undefined;
  const zeros = Array<string>(8 - count).fill("0");
  const all = halves.length === 1 ? groups.flat() : [...(groups[0] ?? []), ...zeros, ...(groups[1] ?? [])];
  const value = all.reduce((sum, group) => (sum << 16n) | BigInt(`0x${group}`), 0n);
  return value >> 32n === 0xffffn ? { bits: 32, value: value & 0xffffffffn } : { bits: 128, value };
}

function shown(address: Address, ipv6Prefix: number): string {
  if (address.bits === 32) {
    return [24n, 16n, 8n, 0n].map((shift) => (address.value >> shift) & 0xffn).join(".");
  }
  const value = masked(address, ipv6Prefix);
  const groups = Array.from({ length: 8 }, (_, index) =>
    ((value >> BigInt(112 - 16 * index)) & 0xffffn).toString(16),
  );
  return groups.join(":");
}
