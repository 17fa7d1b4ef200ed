// The words of the panel "Inside a head", in the language of the interface.
import { computed } from "@preact/signals";
import { type Tongue, tongue } from "..";
import { type InsideWords, insideEn } from "./en";
import { insideZh } from "./zh";

const TEXTS: Partial<Record<Tongue, InsideWords>> = { en: insideEn, zh: insideZh };

export const insideWords = computed(() => TEXTS[tongue.value] ?? insideEn);
