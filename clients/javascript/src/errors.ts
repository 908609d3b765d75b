/** A gateway refused a request. */
export class RequestRefused extends Error {
  override readonly name = "RequestRefused";

  constructor(
    /** The gateway's response; its body has not been read. */
    readonly response: Response,
    message = `the gateway answered ${response.status}`,
  ) {
    super(message);
  }
}

/** No gateway answered, or the connection broke too often in a row. Resume with the last cursor. */
export class ConnectionLost extends Error {
  override readonly name = "ConnectionLost";
}

/** The log no longer has the events after the cursor. Attach without a cursor for a snapshot. */
export class EventsLost extends Error {
  override readonly name = "EventsLost";

  constructor() {
    super("events after the cursor are lost; attach to the run without a cursor");
  }
}
