import { useEffect, useMemo } from "preact/hooks";

import { Counting } from "../break/counting";
import type { Process } from "../break/stack";
import { Figures } from "../figures";
import { session } from "../session";
import { PageHead } from "../shell/page_head";
import { useStore } from "../store";
import { Table } from "../table";

const KILLED: [Process["role"], string][] = [
  ["worker", "Kill the worker"],
  ["gateway", "Kill the gateway"],
  ["nats", "Kill NATS"],
  ["task-state", "Kill a task state"],
  ["triggers", "Kill the triggers"],
];

/** Breaks a development stack under a stream, and counts what the stream loses: nothing. */
export function BreakPage() {
  const { token } = useStore(session);
  const counting = useMemo(() => new Counting(), [token]);
  useEffect(() => {
    void counting.load();
    return () => void counting.stop();
  }, [counting]);
  useStore(counting);
  const { stack, tally, isRunning, open } = counting;
  const isIdle = isRunning && open === undefined;
  return (
    <section class="page">
      <PageHead title="Break it" />
      <p class="hint">
        An agent counts 50 numbers a second while you kill what it runs on. Each event of its log has a number of its
        own, so that an event that is lost or comes twice is counted.
      </p>
      {counting.error && <p class="error" role="alert">{counting.error}</p>}
      <div class="breaking">
        {isRunning ? (
          <button class="plain" onClick={() => counting.stop()}>Stop counting</button>
        ) : (
          <button onClick={() => counting.start()}>Start counting</button>
        )}
        {KILLED.filter(([role]) => stack.of(role).length > 0).map(([role, title]) => (
          <button key={role} class="plain" name={role} disabled={!isIdle} onClick={() => counting.kill(role)}>
            {title}
          </button>
        ))}
        <button class="plain" name="cut" disabled={!isIdle} onClick={() => counting.cut()}>Cut my stream</button>
        {stack.gateways.length > 1 && (
          <button class="plain" name="move" disabled={!isIdle} onClick={() => counting.move()}>
            Resume on another gateway
          </button>
        )}
      </div>
      <Figures
        of={{
          number: counting.number.toLocaleString(),
          events: tally.events.toLocaleString(),
          "events lost": tally.lost,
          "events repeated": tally.repeated,
        }}
      />
      <Table title="What happened" heads={["Time", "What", "Longest pause", "Continued by"]} empty="Nothing yet.">
        {counting.breakages.map((one) => (
          <tr key={`${one.at.getTime()} ${one.what}`}>
            <td>{one.at.toLocaleTimeString()}</td>
            <th scope="row">{one.what}</th>
            <td>{one.gap.toFixed(0)} ms</td>
            <td class="soft">{one.outcome || "waiting"}</td>
          </tr>
        ))}
      </Table>
    </section>
  );
}
