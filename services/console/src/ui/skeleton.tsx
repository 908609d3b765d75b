/** The shape of what is loading: so many lines. */
export function Skeleton({ lines = 5, label = "Loading" }: { lines?: number; label?: string }) {
  return (
    <div class="skeleton" role="status" aria-label={label}>
      {Array.from({ length: lines }, (_, at) => <i key={at} />)}
    </div>
  );
}
