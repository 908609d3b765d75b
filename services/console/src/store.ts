import { useEffect, useState } from "preact/hooks";

/** Data that changes outside of components; they follow it with `useStore`. */
export class Store {
  private readonly followers = new Set<() => void>();
  private isPending = false;

  /** Renders the followers again, at most once per frame. */
  protected changed(): void {
    if (this.isPending) return;
    this.isPending = true;
    const render = () => {
      this.isPending = false;
      for (const follower of this.followers) follower();
    };
    if (typeof requestAnimationFrame === "function") requestAnimationFrame(render);
    else queueMicrotask(render);
  }

  /** Calls `follower` after changes; returns a function that ends this. */
  follow(follower: () => void): () => void {
    this.followers.add(follower);
    return () => this.followers.delete(follower);
  }
}

/** Renders the component again whenever `store` changes. */
export function useStore<S extends Store>(store: S): S {
  const [, setCount] = useState(0);
  useEffect(() => store.follow(() => setCount((count) => count + 1)), [store]);
  return store;
}
