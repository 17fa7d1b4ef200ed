// The outline of what the tour names: on the element itself, however often its panel is drawn anew.
const MARK = "data-toured";

// Returns what takes the outlines away again.
export function outline(main: string, words: string[]): () => void {
  let frame = 0;
  let seen = ""; // the selector whose element was brought into sight
  const draw = () => {
    frame = 0;
    const found = main.split(", ").find((one) => document.querySelector(one)) ?? "";
    const named = found ? document.querySelector(found) : null;
    mark(named, words.flatMap((one) => document.querySelector(one) ?? []));
    if (!named || seen === found || document.getElementById("loading-part")) return;
    seen = found;
    show(named);
  };
  const watcher = new MutationObserver(() => (frame ||= requestAnimationFrame(draw)));
  const page = document.querySelector("main")!;
  watcher.observe(page, { childList: true, subtree: true });
  draw();
  return () => {
    watcher.disconnect();
    cancelAnimationFrame(frame);
    mark(null, []);
  };
}

function mark(named: Element | null, words: Element[]): void {
  const wanted = new Map<Element, string>([...words.map((one) => [one, "word"] as const), ...(named ? [[named, "named"] as const] : [])]);
  for (const old of document.querySelectorAll(`[${MARK}]`)) if (!wanted.has(old)) old.removeAttribute(MARK);
  for (const [one, how] of wanted) if (one.getAttribute(MARK) !== how) one.setAttribute(MARK, how);
}

// Above the card, which lies over the end of the page.
function show(named: Element): void {
  const card = document.getElementById("tour")?.getBoundingClientRect().height ?? 0;
  const room = innerHeight - card;
  const box = named.getBoundingClientRect();
  const isTall = box.height > room - 120;
  const top = isTall ? box.top - 80 : box.top - Math.max(80, (room - box.height) / 2);
  scrollBy({ top });
}

// With the keyboard: to what is outlined, and back to the card.
export function changeSides(): void {
  const card = document.getElementById("tour");
  if (!card) return;
  const named = document.querySelector<HTMLElement>(`[${MARK}="named"]`);
  if (!card.contains(document.activeElement)) return card.querySelector<HTMLElement>("h2")?.focus();
  const inside = named?.matches("[tabindex], button, input, select, textarea") ? named : named?.querySelector<HTMLElement>("[tabindex='0'], button, input, select");
  (inside ?? document.getElementById("panel"))?.focus();
}
