import { useEffect, useRef, useState } from "preact/hooks";

import { authorized, urlOf } from "../gateway";
import { session } from "../session";
import { codeOf, languagesOf, type Language } from "./code";
import type { RawRequest } from "./requests";
import { exchange } from "./socket";

/** Characters of an answer that are shown. */
const MOST = 100_000;

interface Answer {
  status: string;
  headers: [string, string][];
  text: string;
  /** Milliseconds until all of it was there; null: it goes on. */
  took: number | null;
  error: string;
}

interface Shown {
  request: RawRequest;
  /** The gateway's address for gRPC. */
  grpc: string;
  round: number;
}

/** A request in one binding, and its raw answer. It is sent with each new `round`. */
export function Exchange({ request, grpc, round }: Shown) {
  // Browsers hide HTTP/2's trailers from pages, and gRPC's status is there.
  const isForPages = request.transport !== "grpc";
  const [answer, setAnswer] = useState<Answer | null>(null);
  const [language, setLanguage] = useState<Language | "">("");
  const aborting = useRef<AbortController | null>(null);
  const stop = () => aborting.current?.abort();

  const send = async () => {
    stop();
    const { signal } = (aborting.current = new AbortController());
    const show = (shown: Answer) => signal.aborted || setAnswer(shown);
    try {
      await (request.transport === "websocket" ? talk : read)(request, signal, show);
    } catch (error) {
      show({ status: "", headers: [], text: "", took: null, error: (error as Error).message });
    }
  };
  useEffect(() => {
    if (round > 0 && isForPages) void send();
  }, [round]);
  useEffect(() => stop, []);

  return (
    <section class="part exchange" aria-label={request.binding}>
      <h2>{request.binding}</h2>
      <p class="mono">
        {isForPages ? request.method : grpc} {request.path}
      </p>
      {request.body && <pre tabIndex={0}>{request.body}</pre>}
      <div class="actions">
        <span class="grow" />
        {languagesOf(request).map((one) => (
          <button key={one} type="button" class="plain" aria-expanded={language === one} onClick={() => setLanguage(language === one ? "" : one)}>
            {one}
          </button>
        ))}
        {!isForPages ? null : answer && answer.took === null && !answer.error ? (
          <button
            type="button"
            onClick={() => {
              stop();
              setAnswer({ ...answer, took: 0, error: "stopped" });
            }}
          >
            Stop
          </button>
        ) : (
          <button type="button" onClick={send}>
            Send
          </button>
        )}
      </div>
      {!isForPages && <p class="hint">A page can't read gRPC's status. Copy the call and run it in a terminal.</p>}
      {language && <Code code={codeOf(language, request, { root: urlOf(""), grpc }, session.token !== "")} />}
      {answer?.error && <p class="error" role="alert">{answer.error}</p>}
      {answer?.status && (
        <>
          <p>
            {answer.status} <span class="soft">{answer.took ? `${answer.took} ms` : ""}</span>
          </p>
          {answer.headers.length > 0 && (
            <details>
              <summary class="soft">Headers</summary>
              <pre>{answer.headers.map((header) => header.join(": ")).join("\n")}</pre>
            </details>
          )}
          <pre class="answer-text" tabIndex={0}>{answer.text.slice(0, MOST)}</pre>
          {answer.text.length > MOST && <p class="hint">The first {MOST.toLocaleString()} characters.</p>}
        </>
      )}
    </section>
  );
}

/** Sends the request, and shows its answer as it comes. */
async function read({ method, path, headers, body }: RawRequest, signal: AbortSignal, show: (answer: Answer) => void): Promise<void> {
  const begun = performance.now();
  const response = await authorized(urlOf(path), { method, headers, signal, ...(body ? { body } : {}) });
  const answer: Answer = { status: `${response.status} ${response.statusText}`, headers: [...response.headers], text: "", took: null, error: "" };
  show({ ...answer });
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    // What is not shown is not kept.
    if (answer.text.length <= MOST) answer.text += value;
    show({ ...answer });
  }
  show({ ...answer, took: Math.max(1, Math.round(performance.now() - begun)) });
}

/** Sends the frame over a WebSocket, and shows the messages as they come. */
async function talk({ path, body }: RawRequest, signal: AbortSignal, show: (answer: Answer) => void): Promise<void> {
  const begun = performance.now();
  const answer: Answer = { status: "connected", headers: [], text: "", took: null, error: "" };
  const status = await exchange(urlOf(path), body, await session.fresh(), signal, (message) => {
    if (answer.text.length <= MOST) answer.text += `${message}\n`;
    show({ ...answer });
  });
  show({ ...answer, status, took: Math.max(1, Math.round(performance.now() - begun)) });
}

/** Code to copy. */
function Code({ code }: { code: string }) {
  const [isCopied, setCopied] = useState(false);
  const copy = () => navigator.clipboard.writeText(code).then(() => setCopied(true));
  return (
    <div class="card">
      <pre class="code" tabIndex={0}>{code}</pre>
      <div class="actions">
        <span role="status" class="hint grow">{isCopied ? "Copied" : ""}</span>
        <button type="button" class="plain small" onClick={copy}>
          Copy
        </button>
      </div>
    </div>
  );
}
