/** Returns a duration as people write it. */
export function elapsed(milliseconds: number): string {
  const seconds = milliseconds / 1000;
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 2 : 1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days ${hours % 24} h`;
}

/** Returns a cost, or nothing where there is none. */
export function costOf(cost: number): string {
  return cost > 0 ? cost.toLocaleString(undefined, { maximumSignificantDigits: 4 }) : "";
}

/** Returns a number of tokens, or nothing where there are none. */
export function tokensOf(tokens: number): string {
  return tokens > 0 ? tokens.toLocaleString() : "";
}

/** Returns up to about `most` round times of a length in milliseconds, from 0 on. */
export function ticksOf(length: number, most: number): number[] {
  const least = Math.max(1, length / most);
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= least)!;
  return Array.from({ length: Math.floor(length / step) + 1 }, (_, at) => at * step);
}
