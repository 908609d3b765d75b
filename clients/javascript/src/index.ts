/** A2A tasks, streamed over any number of connections. */

export { ConnectionLost, EventsLost, RequestRefused } from "./errors.js";
export type { Connecting, RetryPolicy } from "./gateways.js";
export { resumeTask, streamTask } from "./tasks.js";
export type { Message, Options, TaskEvent } from "./tasks.js";
