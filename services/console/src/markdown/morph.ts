/**
 * Makes the children of `place` those of `wanted`.
 *
 * Nodes that are the same stay and a text grows in place, so that the browser lays out only what is new,
 * and a selection stays.
 */
export function morph(place: Node, wanted: Node): void {
  let here = place.firstChild;
  for (const next of [...wanted.childNodes]) {
    const following = here?.nextSibling ?? null;
    if (!here) place.appendChild(next);
    else if (here instanceof Text && next instanceof Text) grow(here, next.data);
    else if (isSameTag(here, next)) morph(here, next);
    else place.replaceChild(next, here);
    here = following;
  }
  while (here) {
    const following: ChildNode | null = here.nextSibling;
    here.remove();
    here = following;
  }
}

function grow(text: Text, data: string): void {
  if (text.data === data) return;
  if (data.startsWith(text.data)) text.appendData(data.slice(text.length));
  else text.data = data;
}

function isSameTag(one: Node, other: Node): boolean {
  return one instanceof Element && one.cloneNode(false).isEqualNode(other.cloneNode(false));
}
