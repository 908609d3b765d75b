import { Bot, CalendarClock, ChevronDown, CircleUser, MessagesSquare, X } from "lucide";
import type { IconNode } from "lucide";
import type { ComponentChildren } from "preact";

import { Icon } from "../ui/icon";
import { Menu, MenuItem } from "../ui/menu";
import { SPANS, type RowFilters } from "./query";

interface Chosen {
  filters: RowFilters;
  agents: readonly string[];
  isOperator: boolean;
  onChange: (changes: RowFilters) => void;
}

/** The filters besides the state: each a chip that shows what it is set to and opens a menu. */
export function FilterChips({ filters, agents, isOperator, onChange }: Chosen) {
  const { agent = "", owner = "", since = "", contextId = "", q = "" } = filters;
  const isSet = [agent, owner, since, contextId, q, filters.state].some(Boolean);
  return (
    <div class="chips" role="group" aria-label="Filters">
      <ChipMenu icon={Bot} label="Agent" value={agent}>
        {(close) => [
          <Option key="" isSet={!agent} onChoose={() => { close(); onChange({ agent: "" }); }}>All agents</Option>,
          ...agents.map((one) => (
            <Option key={one} isSet={one === agent} onChoose={() => { close(); onChange({ agent: one }); }}>{one}</Option>
          )),
        ]}
      </ChipMenu>
      <ChipMenu icon={CalendarClock} label="Changed" value={SPANS.find(([name]) => name === since)?.[1] ?? shownTime(since)}>
        {(close) => [
          <Option key="" isSet={!since} onChoose={() => { close(); onChange({ since: "" }); }}>At any time</Option>,
          ...SPANS.map(([name, title]) => (
            <Option key={name} isSet={name === since} onChoose={() => { close(); onChange({ since: name }); }}>In {title}</Option>
          )),
        ]}
      </ChipMenu>
      {isOperator && <OwnerChip key={owner} owner={owner} onChange={onChange} />}
      {contextId && (
        <button type="button" class="chip is-set" onClick={() => onChange({ contextId: "" })}>
          <Icon of={MessagesSquare} size={14} />
          Thread <span class="chip-value mono">{contextId}</span>
          <Icon of={X} size={14} />
          <span class="unseen">Remove</span>
        </button>
      )}
      {isSet && (
        <button type="button" class="quiet small" onClick={() => onChange({ agent: "", owner: "", since: "", contextId: "", q: "", state: "" })}>
          Clear filters
        </button>
      )}
    </div>
  );
}

function shownTime(since: string): string {
  return since && `after ${new Date(since).toLocaleString()}`;
}

interface Opened {
  icon: IconNode;
  label: string;
  value: string;
  children: (close: () => void) => ComponentChildren;
}

function ChipMenu({ icon, label, value, children }: Opened) {
  const shown = (
    <>
      <Icon of={icon} size={14} />
      {label}
      {value && <span class="chip-value">{value}</span>}
      <Icon of={ChevronDown} size={14} />
    </>
  );
  return <Menu class={value ? "chip is-set" : "chip"} label={shown}>{children}</Menu>;
}

function Option({ isSet, onChoose, children }: { isSet: boolean; onChoose: () => void; children: ComponentChildren }) {
  return <MenuItem isSet={isSet} onChoose={onChoose}>{children}</MenuItem>;
}

function OwnerChip({ owner, onChange }: { owner: string; onChange: (changes: RowFilters) => void }) {
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    onChange({ owner: String(new FormData(event.currentTarget as HTMLFormElement).get("owner") ?? "").trim() });
  };
  return (
    <form class={owner ? "chip-field is-set" : "chip-field"} onSubmit={submit}>
      <Icon of={CircleUser} size={14} />
      <input name="owner" aria-label="Owner" placeholder="Owner" defaultValue={owner} autocomplete="off" />
    </form>
  );
}
