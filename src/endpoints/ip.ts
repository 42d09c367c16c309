/** An IP address in the one form in which addresses are compared here: no prefix length, IPv6 as RFC 5952 has it. */
export function canonicalIp(address: string): string {
  const bare = address.replace(/\/\d+$/, '');
  if (!bare.includes(':')) return bare;
  try {
    return new URL(`http://[${bare}]`).hostname.slice(1, -1); // the URL standard writes them as RFC 5952 does
  } catch {
    return bare; // no address: it will be equal to none
  }
}
