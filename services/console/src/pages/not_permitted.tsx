import { Lock } from "lucide";

import { PageHead } from "../shell/page_head";
import { EmptyState } from "../ui/empty_state";

/** What is shown instead of a page that the user's roles do not permit. */
export function NotPermittedPage({ title, isForOperators }: { title: string; isForOperators: boolean }) {
  return (
    <section class="page">
      <PageHead title={title} />
      <EmptyState icon={Lock} title={isForOperators ? "This page is for operators" : "Your roles do not permit this page"} actions={<a class="button plain" href="#/fleet">Agents</a>}>
        {isForOperators ? "It needs a role with operator = true and GetFleet on all agents." : "Ask whoever gives out the fleet's roles, or sign in as somebody else."}
      </EmptyState>
    </section>
  );
}
