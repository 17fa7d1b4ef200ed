// The words of the panel "Through a layer", in the language of the interface.
import { computed } from "@preact/signals";
import { type Tongue, tongue } from "..";
import { type LayerWords, layerEn } from "./en";
import { layerZh } from "./zh";

const TEXTS: Partial<Record<Tongue, LayerWords>> = { en: layerEn, zh: layerZh };

export const layerWords = computed(() => TEXTS[tongue.value] ?? layerEn);
