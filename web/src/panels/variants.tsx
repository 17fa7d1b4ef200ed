// All variants that a config can name, by slot, with what their authors, costs, settings and pictures say.
import { signal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { weightColours } from "../colours";
import { paint } from "../pixels";
import { wanted } from "../state";
import { type Picture, type Variant, bySlot, loadVariants, search } from "../variants";
import { words } from "../words";

const known = signal<Variant[] | null>(null);
const failed = signal(false);

async function load(): Promise<void> {
  try {
    known.value ??= await loadVariants();
    failed.value = false;
  } catch {
    failed.value = true; // the server is gone
  }
}

export function Variants() {
  const t = words.value;
  useEffect(() => void load(), []);
  if (failed.value) return <p class="alert">{t.unreachable}</p>;
  if (!known.value) return <p class="faint">{t.phases.loading}</p>;
  const found = search(known.value, wanted.value);
  return (
    <>
      <div class="row">
        <label class="search">
          <span>{t.searchVariants}</span>
          <input
            type="search"
            id="find"
            value={wanted.value}
            placeholder={t.searchHint}
            onInput={(event) => (wanted.value = event.currentTarget.value)}
          />
        </label>
        <span class="faint" role="status" id="found">{t.variantsFound(found.length)}</span>
      </div>
      <p class="small faint">{t.variantsNote}</p>
      {bySlot(found).map(([slot, variants]) => (
        <section key={slot} class="slot">
          <h3>{t.slots[slot] ?? slot} <code>{slot}</code></h3>
          <ul class="gallery">
            {variants.map((one) => (
              <Card key={`${slot} ${one.kind}`} one={one} />
            ))}
          </ul>
        </section>
      ))}
    </>
  );
}

function Card({ one }: { one: Variant }) {
  const t = words.value;
  const facts: [string, string | undefined][] = [
    [t.cost, one.cost],
    [t.reference, one.reference],
    [t.alsoCalled, one.names?.join("; ")],
  ];
  return (
    <li data-variant={`${one.slot} ${one.kind}`}>
      <details>
        <summary>
          <span class="head">
            {one.picture && <Drawing picture={one.picture} size={48} />}
            <span>
              <strong>{one.kind}</strong>
              <span class="small" lang="en">
                {one.line.split("`").map((part, at) => (at % 2 ? <code key={at}>{part}</code> : part))}
              </span>
            </span>
          </span>
        </summary>
        {one.picture && (
          <figure>
            <Drawing picture={one.picture} size={192} />
            <figcaption class="small">
              <code>{one.picture.written}</code> {t.pictureOf[one.picture.about]}
            </figcaption>
          </figure>
        )}
        <dl class="facts small">
          {facts.map(([name, value]) =>
            value ? (
              <div key={name}>
                <dt>{name}</dt>
                <dd lang="en">{value}</dd>
              </div>
            ) : null,
          )}
        </dl>
        {one.settings && (
          <div class="scroll" tabIndex={0} role="region" aria-label={t.settingsOf(one.kind)}>
            <table class="small">
              <thead>
                <tr>
                  <th scope="col">{t.setting}</th>
                  <th scope="col">{t.byDefault}</th>
                  <th scope="col">{t.allowedValues}</th>
                </tr>
              </thead>
              <tbody>
                {one.settings.map(([name, initial, allowed]) => (
                  <tr key={name}>
                    <th scope="row"><code>{name}</code></th>
                    <td><code>{initial}</code></td>
                    <td class="wraps" lang="en">{allowed}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </details>
    </li>
  );
}

function Drawing({ picture, size }: { picture: Picture; size: number }) {
  const t = words.value;
  const canvas = useRef<HTMLCanvasElement>(null);
  const colours = weightColours.value;
  useLayoutEffect(() => {
    const [rows, columns] = [picture.rows.length, picture.rows[0]!.length];
    const values = Float32Array.from(picture.rows.join(""), Number);
    const tile = { values, rows, columns, x: 0, y: 0, width: columns, height: rows, low: 0, high: 9, root: false };
    paint(canvas.current!, columns, rows, [tile], colours);
  }, [picture, colours]);
  const style = { width: `${size}px`, height: `${size}px` };
  const told = size > 100 ? ({ role: "img", "aria-label": `${picture.written} ${t.pictureOf[picture.about]}` } as const) : {};
  return <canvas ref={canvas} style={style} class="pattern" aria-hidden={size <= 100} {...told} />;
}
