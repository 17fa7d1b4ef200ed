import { useLayoutEffect, useRef } from "preact/hooks";
import { helpOpen } from "../state";
import { words } from "../words";

export function Help() {
  const t = words.value;
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    if (helpOpen.value && !dialog.current!.open) dialog.current!.showModal();
  }, [helpOpen.value]);
  return (
    <dialog ref={dialog} aria-labelledby="keys-title" onClose={() => (helpOpen.value = false)}>
      <h2 id="keys-title">{t.keysTitle}</h2>
      <dl class="keys">
        {t.keys.map(([key, does]) => (
          <div key={key}>
            <dt><kbd>{key}</kbd></dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
      <p class="faint">{t.honesty}</p>
      <form method="dialog"><button class="main">{t.close}</button></form>
    </dialog>
  );
}
