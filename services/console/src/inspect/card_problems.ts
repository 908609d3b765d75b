import type { Json } from "../gateway";

/** What is wrong in an agent's card: clients may fail on an error; a warning is to think about. */
export interface Problem {
  where: string;
  what: string;
  isError: boolean;
}

const TEXTS = ["name", "description", "version"];
const SKILL_TEXTS = ["id", "name", "description"];
const BINDINGS = ["JSONRPC", "GRPC", "HTTP+JSON"];

/**
 * Returns where a card breaks the rules of A2A 1.0.
 *
 * @param page The address that the card was read from.
 */
export function problemsOf(card: Json, page: string): Problem[] {
  const found: Problem[] = [];
  const error = (where: string, what: string) => found.push({ where, what, isError: true });
  const warn = (where: string, what: string) => found.push({ where, what, isError: false });
  for (const name of TEXTS) if (!isText(card[name])) error(name, "must be a text that is not empty");
  for (const name of ["defaultInputModes", "defaultOutputModes"]) {
    if (!isList(card[name])) error(name, "must name at least one media type");
  }
  if (!isObject(card["capabilities"])) error("capabilities", "must be an object");
  const interfaces = isList(card["supportedInterfaces"]) ? card["supportedInterfaces"] : [];
  if (interfaces.length === 0) error("supportedInterfaces", "must have at least one interface");
  interfaces.forEach((one: Json, at: number) => checkInterface(one, `supportedInterfaces[${at}]`, page, error, warn));
  checkSkills(card["skills"], error);
  checkSecurity(card, error);
  if (!isList(card["signatures"])) warn("signatures", "the card is not signed");
  return found;
}

type Report = (where: string, what: string) => void;

function checkInterface(one: Json, where: string, page: string, error: Report, warn: Report): void {
  const binding = one["protocolBinding"];
  if (!isText(binding)) error(`${where}.protocolBinding`, "must be a text that is not empty");
  else if (!BINDINGS.includes(binding) && !binding.includes(":")) error(`${where}.protocolBinding`, `${binding} is neither ${BINDINGS.join(", ")} nor a URI`);
  if (!isText(one["protocolVersion"])) error(`${where}.protocolVersion`, "must be a text that is not empty");
  if (!isText(one["url"])) error(`${where}.url`, "must be a text that is not empty");
  if (!isText(one["url"]) || binding === "GRPC") return;
  if (!URL.canParse(one["url"])) {
    error(`${where}.url`, "must be an absolute URL");
    return;
  }
  const [url, read] = [new URL(one["url"]), new URL(page)];
  if (read.protocol === "https:" && url.protocol === "http:") warn(`${where}.url`, "is not encrypted, unlike this page");
  if (url.host !== read.host) warn(`${where}.url`, `leads to ${url.host}, not to ${read.host}`);
}

function checkSkills(skills: unknown, error: Report): void {
  if (!isList(skills)) {
    error("skills", "must have at least one skill");
    return;
  }
  const ids = new Set<unknown>();
  skills.forEach((skill: Json, at) => {
    const where = `skills[${at}]`;
    for (const name of SKILL_TEXTS) if (!isText(skill[name])) error(`${where}.${name}`, "must be a text that is not empty");
    if (!isList(skill["tags"])) error(`${where}.tags`, "must have at least one tag");
    if (ids.has(skill["id"])) error(`${where}.id`, "is the id of an earlier skill");
    ids.add(skill["id"]);
  });
}

function checkSecurity(card: Json, error: Report): void {
  const declared = isObject(card["securitySchemes"]) ? card["securitySchemes"] : {};
  const requirements: Json[] = isList(card["securityRequirements"]) ? card["securityRequirements"] : [];
  requirements.forEach(({ schemes = {} }, at) => {
    for (const name of Object.keys(schemes)) {
      if (!(name in declared)) error(`securityRequirements[${at}]`, `${name} is not in securitySchemes`);
    }
  });
}

const isText = (value: unknown): value is string => typeof value === "string" && value.trim() !== "";
const isList = (value: unknown): value is Json[] => Array.isArray(value) && value.length > 0;
const isObject = (value: unknown): value is Json => typeof value === "object" && value !== null && !Array.isArray(value);
