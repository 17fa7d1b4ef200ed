// Whose attention is compared: the kind, the layer and the head that the other panels show, too.
import { nameOfKind } from "../kind-name";
import * as s from "../state";
import { settle } from "../translate";
import type { Kind } from "../types";
import { words } from "../words";

export function HeadPicker({ heads }: { heads: number }) {
  const t = words.value;
  const info = s.model.value;
  const kind = s.kind.value;
  return (
    <div class="row" id="head-picker">
      <label>
        {t.kind}{" "}
        <select
          value={kind}
          onChange={(event) => {
            s.kind.value = event.currentTarget.value as Kind;
            settle();
          }}
        >
          {s.kindsOf(info).map((one) => <option value={one} key={one}>{nameOfKind(one)}</option>)}
        </select>
      </label>
      <label>
        {t.layer}{" "}
        <select value={s.layer.value} onChange={(event) => (s.layer.value = Number(event.currentTarget.value))}>
          {Array.from({ length: s.layersOf(info, kind) }, (_, n) => <option value={n} key={n}>{n + 1}</option>)}
        </select>
      </label>
      {heads > 1 && (
        <label>
          {t.head}{" "}
          <select value={s.head.value} onChange={(event) => (s.head.value = Number(event.currentTarget.value))}>
            <option value={-1}>{t.mean}</option>
            {Array.from({ length: heads }, (_, n) => <option value={n} key={n}>{n + 1}</option>)}
          </select>
        </label>
      )}
    </div>
  );
}
