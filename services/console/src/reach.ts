import { Store } from "./store";

/** What proxies and gateways that start or stop answer. */
const UNAVAILABLE = [502, 503, 504];

/** Whether the gateway answers, as the last request saw it. */
class Reach extends Store {
  isLost = false;

  /** Makes a request, and remembers whether it was answered. */
  async watched(url: string, init: RequestInit): Promise<Response> {
    try {
      const response = await fetch(url, init);
      this.set(UNAVAILABLE.includes(response.status));
      return response;
    } catch (error) {
      if (!init.signal?.aborted) this.set(true);
      throw error;
    }
  }

  private set(isLost: boolean): void {
    if (this.isLost === isLost) return;
    this.isLost = isLost;
    this.changed();
  }
}

export const reach = new Reach();
