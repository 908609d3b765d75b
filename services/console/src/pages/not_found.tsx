import { Compass } from "lucide";

import { PageHead } from "../shell/page_head";
import { EmptyState } from "../ui/empty_state";

/** The page for an address that names none. */
export function NotFoundPage() {
  return (
    <section class="page">
      <PageHead title="Not found" />
      <EmptyState icon={Compass} title="There is no such page" actions={<a class="button" href="#/">All tasks</a>}>
        The address may be cut, or of another version of the console.
      </EmptyState>
    </section>
  );
}
