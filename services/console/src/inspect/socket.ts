/** Returns an HTTP URL as one of a WebSocket. */
export function socketUrl(url: string): string {
  return url.replace(/^http/, "ws");
}

/** Whether a message of a WebSocket ends what a frame has asked for. */
function isLast(message: string): boolean {
  const { result, error, end } = JSON.parse(message);
  return Boolean(result || error || end);
}

/**
 * Sends a frame over a connection of its own; resolves with the reason of its end.
 *
 * A browser can't set headers, so the token is one of the subprotocols.
 */
export function exchange(url: string, frame: string, token: string, signal: AbortSignal, take: (message: string) => void): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(socketUrl(url), token ? ["headrace", `bearer.${token}`] : []);
    signal.addEventListener("abort", () => socket.close());
    socket.onopen = () => socket.send(frame);
    socket.onmessage = ({ data }) => {
      take(data);
      if (isLast(data)) socket.close(1000);
    };
    socket.onclose = ({ code, reason }) => {
      if (code === 1006 && !signal.aborted) reject(new Error("the connection was refused or lost"));
      else resolve(`closed with ${code}${reason && `: ${reason}`}`);
    };
  });
}
