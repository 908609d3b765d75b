import assert from "node:assert/strict";
import { test } from "node:test";

import { Blocks, htmlOf } from "../src/markdown/blocks";

const LINES = [
  "", "", "", "", "", "a", "a *b* `c", "d` **e", "1. a", "2. b", "2", "- a", "- - -", "* b", "-b", "  a", "    a", "\ta", "# a", "#a", "---", "===", "> a", ">",
  "```", "```js", "~~~", "a | b", "--|--", "1 | 2", "[x", "x]", "[x] [y][x]", "[x]: /u", "[x]: /u \"t", "\"t", "t\"", "[x", "z]: /v", "y]: /w", "[z]: <", "- [ ] a", "- [x]: /l",
  "<div>", "</div>", "<pre>", "</pre>", "<!--", "-->", "<b> & <a>", "www.x.com", "![i](j)", "a  ", "a\\", "  ", "\r", "> [x]: /q", "> - a",
];

/** Numbers from 0 to 1, drawn by mulberry32. */
function drawing(seed: number): () => number {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const joined = (blocks: { html: string }[]) => blocks.map(({ html }) => html).join("");

test("after each character of drawn texts, the blocks joined are what the whole renders to", () => {
  const draw = drawing(1);
  const differing: string[] = [];
  let most = 0;
  for (let round = 0; round < 400; round += 1) {
    const one = <T>(list: T[]) => list[Math.floor(draw() * list.length)]!;
    // A few lines that come again and again meet in more ways than many do.
    const few = ["", "", ...Array.from({ length: 4 }, () => one(LINES))];
    const text = Array.from({ length: 9 }, () => one(few)).join("\n");
    const blocks = new Blocks();
    for (let length = 1; length <= text.length; length += 1) {
      const shown = blocks.of(text.slice(0, length));
      most = Math.max(most, shown.length);
      if (joined(shown) === htmlOf(text.slice(0, length))) continue;
      differing.push(text.slice(0, length));
      break;
    }
  }
  assert.deepEqual(differing, []);
  assert.ok(most > 3);
});

test("a finished block is rendered once", () => {
  const blocks = new Blocks();
  const early = blocks.of("one\n\n- two\n\nthree\n\nfo");
  const late = blocks.of("one\n\n- two\n\nthree\n\nfour\n\nfive");
  assert.equal(early.length, 3);
  assert.deepEqual(late.map((block, at) => block === early[at]), [true, true, false, false]);
});

test("a block that begins like a link definition is finished unless a title is open", () => {
  const closed = ["[x]: /u and text", "[x]: /u\ntext", "[x]: /u", "[x]:", "[x]: <u v", "[x]: /u 'a"];
  const open = ['[x]: /u "a', "[x]: /u\n(a", '[y]: /v\n[x]: <u>  "a\\"'];
  const finished = (text: string) => new Blocks().of(`${text}\n\nmore\n\nend`).length > 1;
  assert.deepEqual([...closed, ...open].filter(finished), closed);
});

test("a list goes on after a blank line", () => {
  const blocks = new Blocks();
  blocks.of("1. one\n\n2");
  assert.equal(joined(blocks.of("1. one\n\n2. two\n\nend\n")).match(/<ol/g)?.length, 1);
});

test("a reference gets its link once the definition is there, and only then", () => {
  const blocks = new Blocks();
  const [before] = blocks.of("see [it]\n\nmore\n\n[it");
  const [after] = blocks.of("see [it]\n\nmore\n\n[it]: http://x");
  assert.ok(!before!.html.includes("href"));
  assert.ok(after!.html.includes('href="http://x"'));
});

test("a text that is another one is rendered anew", () => {
  const blocks = new Blocks();
  blocks.of("one\n\ntwo\n\nthree");
  assert.equal(joined(blocks.of("[x]\n\nfour")), htmlOf("[x]\n\nfour"));
});

test("HTML is shown as it is written, also below an open tag", () => {
  assert.equal(htmlOf("a <pre> b\n\n<i>c</i> & d"), "<p>a &lt;pre&gt; b</p>\n<p>&lt;i&gt;c&lt;/i&gt; &amp; d</p>\n");
});
