/** A2A tasks, streamed over any number of connections. */

export { ConnectionLost, EventsLost, RequestRefused } from "./errors.js";
export type { Connecting, Retry } from "./gateways.js";
export { watchTasks } from "./lists.js";
export type { ListChange, ListFilter } from "./lists.js";
export type { StartTime } from "./start_time.js";
export { resumeTask, streamTask } from "./tasks.js";
export type { Message, Options, SendOptions, TaskEvent } from "./tasks.js";
