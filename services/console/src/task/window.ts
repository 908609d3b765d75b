/** The part of a time axis that is shown, as fractions of the whole. */
export interface Window {
  from: number;
  to: number;
}

export const WHOLE: Window = { from: 0, to: 1 };

/** The most that is shown as the whole width. */
const LEAST = 1 / 4096;

/** Returns `shown` `times` as wide around its middle, or around `about`; never beyond the whole. */
export function zoomed(shown: Window, times: number, about = (shown.from + shown.to) / 2): Window {
  const width = Math.min(1, Math.max(LEAST, (shown.to - shown.from) * times));
  const share = (about - shown.from) / (shown.to - shown.from);
  return within(about - share * width, width);
}

/** Returns `shown`, moved by a share of its width. */
export function moved(shown: Window, share: number): Window {
  const width = shown.to - shown.from;
  return within(shown.from + share * width, width);
}

function within(from: number, width: number): Window {
  const begin = Math.min(Math.max(0, from), 1 - width);
  return { from: begin, to: begin + width };
}
