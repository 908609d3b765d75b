import { authorized, reasonOf, urlOf, type Json } from "../gateway";

const KINDS = ["image", "audio", "video"];
/** Types that a browser shows as a picture, and never executes. */
const PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
// No segment may be "..", however it is escaped: the browser would request another path.
const STORED = /\/v1\/agents\/[\w-]+\/tasks\/[\w-]+\/files\/[\w-][\w.-]*$/;

/** A file in a message, whatever protocol it came by. */
export interface FileContent {
  name: string;
  mediaType: string;
  /** Base64; empty if the file is elsewhere. */
  data: string;
  url: string;
}

/** Returns AG-UI's content part for a file that the user chose. */
export async function partOf(file: File): Promise<Json> {
  const mimeType = file.type || "application/octet-stream";
  const kind = mimeType.split("/", 1)[0]!;
  const source = { type: "data", value: await base64Of(file), mimeType };
  return {
    type: KINDS.includes(kind) ? kind : "document",
    source,
    metadata: { filename: file.name },
  };
}

/** Returns the content of a file that the user chose, as base64. */
export async function base64Of(file: File): Promise<string> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) {
    text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  }
  return btoa(text);
}

/** Returns the file in an A2A part or an AG-UI content part, or null if it is none. */
export function fileIn(part: Json): FileContent | null {
  if (part["source"]) {
    const { type, value = "", mimeType = "" } = part["source"];
    const name = part["metadata"]?.filename ?? "file";
    const isData = type === "data";
    return { name, mediaType: mimeType, data: isData ? value : "", url: isData ? "" : value };
  }
  if (part["raw"] === undefined && part["url"] === undefined) return null;
  const { filename = "file", mediaType = "", raw = "", url = "" } = part;
  return { name: filename, mediaType, data: raw, url };
}

/** Returns the address of a picture that is part of the message; empty if it is none. */
export function pictureOf({ mediaType, data }: FileContent): string {
  return data && PICTURES.includes(mediaType) ? `data:${mediaType};base64,${data}` : "";
}

/** Returns where a file that the fleet stores can be fetched; empty for other addresses. */
export function storedAt(url: string): string {
  // Another gateway may have made the address; this one serves the same file.
  const path = STORED.exec(url)?.[0];
  return path ? urlOf(path.slice(1)) : "";
}

/** Bytes of a stored picture up to which it is shown without being asked for. */
const LARGEST_PICTURE = 8 * 1024 * 1024;

/** Whether the fleet stores a picture, which can be fetched to be shown. */
export function isStoredPicture({ mediaType, url }: FileContent): boolean {
  return PICTURES.includes(mediaType) && storedAt(url) !== "";
}

/**
 * Returns an address of a stored picture for this page; the caller revokes it. Empty: it is too large.
 *
 * @throws Error: it can't be fetched.
 */
export async function fetchPicture({ mediaType, url }: FileContent, signal: AbortSignal): Promise<string> {
  const response = await authorized(storedAt(url), { signal });
  if (!response.ok) throw new Error(await reasonOf(response));
  const bytes = await response.arrayBuffer();
  return bytes.byteLength > LARGEST_PICTURE ? "" : URL.createObjectURL(new Blob([bytes], { type: mediaType }));
}

/**
 * Saves a file under its name, as the browser's downloads do.
 *
 * @throws Error: it can't be fetched.
 */
export async function save(file: FileContent): Promise<void> {
  const blob = file.data ? blobOf(file) : await fetched(storedAt(file.url));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = file.name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

function blobOf({ data }: FileContent): Blob {
  const bytes = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
  // Without the type that the agent claims: it is only ever saved.
  return new Blob([bytes], { type: "application/octet-stream" });
}

async function fetched(url: string): Promise<Blob> {
  const response = await authorized(url);
  if (!response.ok) throw new Error(await reasonOf(response));
  return new Blob([await response.arrayBuffer()], { type: "application/octet-stream" });
}
