import type { ComponentChildren } from "preact";

interface Shown {
  title: string;
  /** The last one is left out where there is little room. */
  heads: string[];
  empty: string;
  children: ComponentChildren[];
}

/** A part of a page: a table under its title, or why it is empty. */
export function Table({ title, heads, empty, children }: Shown) {
  return (
    <section class="part">
      <h2>{title}</h2>
      {children.length === 0 ? (
        <p class="hint">{empty}</p>
      ) : (
        <table class="last-is-wide">
          <thead>
            <tr>
              {heads.map((head) => (
                <th key={head} scope="col">{head}</th>
              ))}
            </tr>
          </thead>
          <tbody>{children}</tbody>
        </table>
      )}
    </section>
  );
}
