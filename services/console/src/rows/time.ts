const UNITS: readonly (readonly [Intl.RelativeTimeFormatUnit, number])[] = [
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
];

const FORMAT = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "narrow" });

/** Returns how long ago a time was, in words; both in milliseconds since the epoch. */
export function ago(time: number, now: number): string {
  const seconds = Math.round((now - time) / 1000);
  if (seconds < 45) return "just now";
  const [unit, length] = UNITS.find(([, length]) => seconds >= length) ?? UNITS.at(-1)!;
  return FORMAT.format(-Math.max(1, Math.round(seconds / length)), unit);
}
