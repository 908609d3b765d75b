/** A time at which a run begins: RFC 3339 with an offset from UTC, if it is a text. */
export type StartTime = Date | string;

/** Returns `time` as gateways take it. */
export function timestamp(time: StartTime): string {
  return typeof time === "string" ? time : time.toISOString();
}
