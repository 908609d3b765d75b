import type { Json } from "../gateway";
import { fileIn, type FileContent } from "../chat/files";
import { continued } from "../markdown/continued";
import { childOf, inputOf, kindOf } from "./parts";
import { partsOf, type LogRow } from "./timeline";

/** Something that its user has said to a task. */
export interface Said {
  generation: number;
  text: string;
  parts: Json[];
  files: FileContent[];
}

/** What a task was asked, and what came of it. */
export class Result {
  readonly said: Said[] = [];
  owner = "";
  private readonly texts = new Map<string, string>();
  private readonly artifacts = new Map<string, FileContent[]>();
  /** What the last status says in words: a question, or why it ended. */
  status = "";

  /** Takes the log's next row. */
  take(row: LogRow): void {
    if (row.owner) this.owner = row.owner;
    const input = inputOf(row);
    if (input) {
      this.say(row.generation, input["parts"] ?? []);
      return;
    }
    const { artifact, append } = row.event["artifactUpdate"] ?? {};
    if (artifact) this.artifact(artifact, append === true);
    const status = row.event["statusUpdate"]?.status;
    if (/_(REQUIRED|COMPLETED|FAILED|CANCELED|REJECTED)$/.test(status?.state ?? "")) this.status = textIn(partsOf(row.event));
    const message = row.event["message"];
    if (message && message.role !== "ROLE_USER") this.texts.set("message", textIn(message.parts ?? []));
  }

  /** The answer, as Markdown. */
  get answer(): string {
    return continued([...this.texts.values()].filter((text) => text.trim())).join("\n\n");
  }

  get files(): FileContent[] {
    return [...this.artifacts.values()].flat();
  }

  private say(generation: number, parts: Json[]): void {
    const files = parts.map((part) => fileIn(part)).filter((file) => file !== null);
    this.said.push({ generation, text: textIn(parts), parts, files });
    this.status = "";
  }

  private artifact({ artifactId: id, parts = [] }: Json, isMore: boolean): void {
    const own: Json[] = parts.filter((part: Json) => !childOf(part));
    this.texts.set(id, (isMore ? this.texts.get(id) ?? "" : "") + own.map((part) => (kindOf(part) === "text" ? part["text"] : "")).join(""));
    const files = own.map((part) => fileIn(part)).filter((file) => file !== null);
    this.artifacts.set(id, isMore ? [...(this.artifacts.get(id) ?? []), ...files] : files);
  }
}

function textIn(parts: readonly Json[]): string {
  return parts.filter((part) => part["text"] !== undefined).map((part) => part["text"]).join("\n");
}
