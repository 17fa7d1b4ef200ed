// What is compared, by names that people read.
import { allModels, readPart } from "../versions";
import { words } from "../words";
import { comparing } from "../words/comparing";

export function tellPart(name: string): string {
  const t = comparing.value.compare;
  const part = readPart(name);
  if (!part) return name;
  const where = `${words.value[part.side]} · ${words.value.layerN(part.layer + 1)}`;
  return `${where}${part.sub && ` · ${t.subs[part.sub]}`}${part.head >= 0 ? ` · ${words.value.headN(part.head + 1)}` : ""}`;
}

export function tellModel(name: string): string {
  const found = allModels().find((one) => one.name === name);
  const checkpoint = found?.checkpoint;
  return checkpoint ? `${found.of}, ${comparing.value.compare.checkpoint(String(checkpoint.step), checkpoint.loss?.toFixed(3) ?? "")}` : name;
}
