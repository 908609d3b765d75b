// Has A2UI's own renderer core take messages, as a page does that draws them.
//
// in:  lines of lists of A2UI messages, each for one page
// out: { surfaces: { id: { components, data } }, valid, failure }
//      components: their types by id; valid: whether the messages fit the protocol's schema

import { createInterface } from "node:readline";

import { A2uiMessageListSchema, BASIC_COMPONENTS, Catalog, MessageProcessor } from "@a2ui/web_core/v0_9";

const CATALOG = "https://a2ui.org/specification/v0_9/basic_catalog.json";

const drawn = ({ componentsModel, dataModel }) => {
  const components = Object.fromEntries([...componentsModel.entries].map(([id, { type }]) => [id, type]));
  return { components, data: dataModel.get("/") };
};

for await (const line of createInterface({ input: process.stdin })) {
  const messages = JSON.parse(line);
  const processor = new MessageProcessor([new Catalog(CATALOG, BASIC_COMPONENTS)]);
  let failure = null;
  try {
    processor.processMessages(messages);
  } catch (error) {
    failure = error.message;
  }
  const surfaces = [...processor.model.surfacesMap].map(([id, surface]) => [id, drawn(surface)]);
  const said = { surfaces: Object.fromEntries(surfaces), valid: A2uiMessageListSchema.safeParse(messages).success, failure };
  process.stdout.write(`${JSON.stringify(said)}\n`);
}
