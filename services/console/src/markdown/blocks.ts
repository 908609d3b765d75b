import { Marked, type Links, type Token } from "marked";

/** A part of a text that renders the same with or without what follows it. */
export interface Block {
  readonly markdown: string;
  readonly html: string;
}

/** HTML in a text is shown as it is written, and pictures as links: they would be fetched. */
const renderer = {
  html: ({ text }: { text: string }) => escaped(text),
  image: ({ href, text }: { href: string; text: string }) =>
    `<a href="${escaped(href)}">${escaped(text || href)}</a>`,
};
const marked = new Marked({ gfm: true, renderer });
marked.use({
  tokenizer: {
    // marked's own remembers open tags, so one block's HTML would change how the next one renders.
    tag(this: { rules: any }, source: string): any {
      const raw = this.rules.inline.tag.exec(source)?.[0];
      return raw && { type: "html", raw, text: raw, block: false, inLink: false, inRawBlock: false };
    },
  },
});

function escaped(text: string): string {
  const signs: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
  return text.replace(/[&<>"']/g, (sign) => signs[sign]!);
}

/** Returns Markdown as HTML, which is not sanitized yet. */
export function htmlOf(markdown: string, links: Links = {}): string {
  const lexer = lexerWith(links);
  return marked.Parser.parse(lexer.lex(markdown), marked.defaults);
}

function lexerWith(links: Links) {
  const lexer = new marked.Lexer(marked.defaults);
  Object.assign(lexer.tokens.links, links);
  return lexer;
}

/**
 * A text that grows, as blocks: those that nothing can change any more are rendered once.
 *
 * Joined, they are what the whole text renders to.
 */
export class Blocks {
  private text = "";
  private finished: Block[] = [];
  /** Where the open block begins. */
  private start = 0;
  /** Link definitions of the finished blocks. */
  private finishedLinks: Links = {};
  /** All link definitions, as the finished blocks are rendered with. */
  private links = "{}";

  /** Returns the blocks of `text`; a finished one is the same object each time. */
  of(text: string): Block[] {
    const lines = text.replace(/\r\n|\r/g, "\n");
    if (!lines.startsWith(this.text)) Object.assign(this, new Blocks());
    this.text = lines;
    const { tokens, links } = this.lexed(lines.slice(this.start));
    // A definition may stand below the blocks that refer to it.
    if (this.links !== (this.links = JSON.stringify(links))) {
      this.finished = this.finished.map((block) => (block.markdown.includes("[") ? rendered(block.markdown, links) : block));
    }
    for (const markdown of finishedIn(tokens)) {
      this.finished.push(rendered(markdown, links));
      this.finishedLinks = this.lexed(markdown).links;
      this.start += markdown.length;
    }
    const open = lines.slice(this.start);
    return open ? [...this.finished, rendered(open, links)] : [...this.finished];
  }

  private lexed(markdown: string): { tokens: Token[]; links: Links } {
    const lexer = lexerWith(this.finishedLinks);
    return { tokens: lexer.blockTokens(markdown, []), links: lexer.tokens.links };
  }
}

function rendered(markdown: string, links: Links): Block {
  return { markdown, html: htmlOf(markdown, links) };
}

/**
 * Returns the parts at a text's beginning that nothing after the text can change.
 *
 * A part ends before a blank line and a line that is whole: before that, the line might still become
 * one that goes on with a list or a quotation.
 */
function finishedIn(tokens: Token[]): string[] {
  const parts: string[] = [];
  let part: Token[] = [];
  let lines = rawOf(tokens);
  for (const token of tokens) {
    const raw = rawOf(part);
    if (token.type !== "space" && /\n[ \t]*\n$/.test(raw) && lines.includes("\n")) {
      if (mayGoOn(part)) break;
      parts.push(raw);
      part = [];
    }
    part.push(token);
    lines = lines.slice(token.raw.length);
  }
  return parts;
}

/**
 * The beginning of a link definition up to a title that is still open.
 *
 * To marked, a title in double quotes or parentheses may contain blank lines.
 */
const OPEN_TITLE =
  /^ {0,3}\[(?:\\[^]|[^[\]\\])+\]: *(?:\n[ \t]*)?(?:[^<\s]\S*|<(?:\\.|[^\n<>\\])*>)(?: +(?:\n[ \t]*)?| *\n[ \t]*)(?:"(?:\\[^]|[^"\\])*|\((?:\\[^]|[^()\\])*)$/;

/** Whether text after a blank line can make a link definition, or another one, of something in a part. */
function mayGoOn(part: Token[]): boolean {
  return part.some((_, at) => OPEN_TITLE.test(rawOf(part.slice(at))));
}

function rawOf(tokens: Token[]): string {
  return tokens.map(({ raw }) => raw).join("");
}
